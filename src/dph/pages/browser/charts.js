// Charts by Vega-Lite, drawn when they come into view and then when there is nothing else to do.
// Expressions are interpreted, never compiled.
"use strict";

/** @typedef {{view: any}} Embedded */

/** @type {Set<any>} */
const views = new Set();
/** @type {Map<HTMLElement, ChartDocument>} Charts that are not drawn yet, by their places. */
const waiting = new Map();
let charting = false;

/** Run the charts' script, which takes longer than the rest of the page and is not always needed. */
function startVega() {
  if (charting) return;
  charting = true;
  // The page's policy lets a script run whose text has the hash that it names.
  document.body.append(make("script", {}, byId("vega").textContent));
}

/**
 * Columns as rows.
 * @param {Record<string, any[]>} columns
 */
function rowsOf(columns) {
  const names = Object.keys(columns);
  const count = names.length ? columns[names[0]].length : 0;
  return Array.from({ length: count }, (_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
}

/**
 * @param {string} key
 * @returns {string} the label of a run; other names are their own
 */
function labelOf(key) {
  const run = index.runs.find((one) => one.key === key);
  return run ? run.label : key;
}

/**
 * The values under the pointer, as text.
 * @param {any} _handler
 * @param {MouseEvent} event
 * @param {any} _item
 * @param {Record<string, string> | null} values
 */
function showTip(_handler, event, _item, values) {
  const tip = byId("tip");
  tip.hidden = !values;
  if (!values) return;
  const rows = Object.entries(values).filter(([, value]) => !/^(NaN|undefined|null)/.test(String(value)));
  tip.replaceChildren(
    ...rows.map(([key, value]) =>
      make("div", { class: `of-${key}` },
        make("span", { class: index.runs.some((run) => run.key === key) ? "swatch" : "none" }),
        make("span", {}, key === "label" ? "" : labelOf(key)), make("b", {}, String(value)))),
  );
  const width = tip.offsetWidth, height = tip.offsetHeight;
  tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - width - 8)}px`;
  tip.style.top = `${Math.max(8, Math.min(event.clientY + 14, window.innerHeight - height - 8))}px`;
}

/**
 * Draw what waits at a place.
 * @param {HTMLElement} place
 */
async function draw(place) {
  const chart = waiting.get(place);
  if (!chart) return;
  waiting.delete(place);
  startVega();
  const spec = { ...chart.spec, datasets: { rows: rowsOf(chart.columns) } };
  const embedded = await /** @type {any} */ (window).vegaEmbed(place, spec, {
    ast: true, // no evaluation of text: the page's policy forbids it
    renderer: "svg",
    actions: false,
    defaultStyle: false,
    tooltip: showTip,
  });
  views.add(embedded.view);
  await embedded.view.signal("shown", shownRuns().map((run) => run.key)).runAsync();
}

let drawing = false;

/** Draw the charts of the page that is shown, one after the other. */
async function drawShown() {
  if (drawing) return;
  drawing = true;
  for (;;) {
    const place = [...waiting.keys()].find((one) => one.offsetParent !== null);
    if (!place) break;
    await draw(place);
    await new Promise((resolve) => setTimeout(resolve, 0)); // let the page answer in between
  }
  drawing = false;
}

function startCharts() {
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting && entry.target instanceof HTMLElement) draw(entry.target);
    }
  }, { rootMargin: "300px" });
  for (const section of document.querySelectorAll("[data-charts]")) {
    if (!(section instanceof HTMLElement)) continue;
    for (const chart of index.charts.filter((one) => one.section === section.dataset.charts)) {
      const place = make("div", { class: "chart", role: "img", "aria-label": `${chart.title}, a chart` });
      const title = make("figcaption", {}, ...visible(chart.title), chart.caption ? make("small", {}, ` ${chart.caption}`) : null);
      section.append(make("figure", {}, title, place));
      waiting.set(place, chart);
      seen.observe(place);
    }
  }
  onRunsChanged.push(() => {
    const keys = shownRuns().map((run) => run.key);
    for (const view of views) view.signal("shown", keys).runAsync();
  });
}
