// Charts by Vega-Lite, drawn when there is nothing else to do, those in view first.
// Expressions are interpreted, never compiled.
"use strict";

/** @typedef {{view: any}} Embedded */

/** @typedef {{chart: ChartDocument, place: HTMLElement, figure: HTMLElement, view: any, drawn: boolean}} Placed */

/** @type {Map<string, Placed>} Every chart of the page by its section and name. */
const placed = new Map();
/** @type {Promise<void> | null} */
let vega = null;

/** @param {ChartDocument} chart */
function chartKey({ section, name }) {
  return `${section}/${name}`;
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
  const one = [...index.runs, ...index.groups].find((other) => other.key === key);
  return one ? one.label : key;
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
        make("span", { class: labelOf(key) !== key ? "swatch" : "none" }),
        make("span", {}, key === "label" ? "" : labelOf(key)), make("b", {}, String(value)))),
  );
  const width = tip.offsetWidth, height = tip.offsetHeight;
  tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - width - 8)}px`;
  tip.style.top = `${Math.max(8, Math.min(event.clientY + 14, window.innerHeight - height - 8))}px`;
}

/**
 * Draw a chart, unless it is drawn.
 * @param {Placed} one
 */
async function draw(one) {
  if (one.drawn) return;
  one.drawn = true;
  vega = vega || readVega();
  await vega;
  const rows = seenRows(one.chart), spec = { ...seenSpec(one.chart), datasets: { rows } };
  one.figure.hidden = !rows.length;
  one.drawn = rows.length > 0;
  if (!one.drawn) return;
  const embedded = await /** @type {any} */ (window).vegaEmbed(one.place, spec, {
    ast: true, // no evaluation of text: the page's policy forbids it
    renderer: "svg",
    actions: false,
    defaultStyle: false,
    tooltip: showTip,
  });
  one.view = embedded.view;
  await one.view.signal("shown", shownSeries().map((one) => one.key)).runAsync();
}

let drawing = false;

/** Charts hear of a resized window alone, and not if they are hidden or being drawn then. */
function fitCharts() {
  const seen = [...placed.values()].filter(({ view, place }) => view && place.offsetParent !== null);
  if (seen.some(({ view, place }) => view.width() !== place.clientWidth)) window.dispatchEvent(new Event("resize"));
}

/** Draw the charts of the page that is shown, one after the other, those in view first. */
async function drawShown() {
  if (drawing) return;
  drawing = true;
  for (;;) {
    const left = [...placed.values()].filter((one) => !one.drawn && one.place.offsetParent !== null);
    const one = left.find((other) => inView.has(other.place)) || left[0];
    if (!one) break;
    await draw(one);
    await new Promise((resolve) => setTimeout(resolve, 0)); // let the page answer in between
  }
  drawing = false;
  fitCharts();
}

/** Places that were shown, or took another width from their neighbours. */
const resized = new ResizeObserver(() => setTimeout(fitCharts, 0));

/** @type {Set<Element>} places that are in view, or nearly */
const inView = new Set();
const seenCharts = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting) inView.add(target);
    else inView.delete(target);
  }
  if (inView.size) whenIdle(drawShown); // after verdicts and tables
}, { rootMargin: "300px" });

/**
 * Bring a section in line with its charts: new ones get a place, those that are drawn new values.
 * @param {Element} section
 * @param {ChartDocument[]} charts
 */
function placeCharts(section, charts) {
  const parts = [...new Set(charts.map((chart) => chart.part))];
  for (const part of parts) {
    const mine = part ? partOf(section, part) : section;
    charts.filter((chart) => chart.part === part).forEach((chart, i) => placeChart(mine, chart, i));
  }
}

/**
 * The place of the charts under a heading.
 * @param {Element} section
 * @param {string} part
 */
function partOf(section, part) {
  const there = section.querySelector(`[data-part="${part}"]`);
  if (there) return there;
  const charts = make("div", { class: "charts", "data-part": part });
  section.append(make(section.matches("[data-charts=training]") ? "h3" : "h4", {}, part), charts);
  return charts;
}

/**
 * @param {Element} section
 * @param {ChartDocument} chart
 * @param {number} i its place in the section
 */
function placeChart(section, chart, i) {
  const there = placed.get(chartKey(chart));
  if (there && JSON.stringify(there.chart.spec) === JSON.stringify(chart.spec)) {
    there.chart = chart;
    showRows(there);
    return;
  }
  const place = make("div", { class: "chart", role: "img", "aria-label": `${chart.title}, a chart` });
  const title = make("figcaption", {}, ...visible(chart.title), chart.caption ? make("small", {}, ` ${chart.caption}`) : null);
  const figure = make("figure", {}, title, place);
  if (there) there.figure.remove();
  section.insertBefore(figure, section.children[i] || null);
  const one = { chart, place, figure, view: null, drawn: false };
  placed.set(chartKey(chart), one);
  if (chart.part) followPointer(one);
  seenCharts.observe(place);
  resized.observe(place);
}

/** Show the charts of the index. */
function showCharts() {
  for (const section of document.querySelectorAll("[data-charts]")) {
    const name = section instanceof HTMLElement ? section.dataset.charts : "";
    placeCharts(section, index.charts.filter((one) => one.section === name));
  }
}

function startCharts() {
  showCharts();
  onRunsChanged.push(() => {
    const keys = shownSeries().map((one) => one.key);
    for (const { view } of placed.values()) if (view) view.signal("shown", keys).runAsync();
  });
}
