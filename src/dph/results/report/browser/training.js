// Charts over steps, looked at together: smoothed, on a log axis, at some steps, under one crosshair.
"use strict";

/** @typedef {{key: string, stage: string, step: number, steps: number, state: string,
 *   seconds_left: number | null}} Progress */

/** What is looked at of all charts over steps; the address holds it. */
const lens = { smooth: 1, log: false, from: NaN, to: NaN };

/**
 * A chart's specification under the lens.
 * @param {ChartDocument} chart
 */
function seenSpec(chart) {
  if (!chart.part || !lens.log) return chart.spec;
  const spec = structuredClone(chart.spec);
  for (const layer of spec.layer || []) {
    const y = layer.encoding && layer.encoding.y;
    if (y && y.field) y.scale = { ...y.scale, type: "symlog", constant: smallest(chart) };
  }
  return spec;
}

/**
 * The smallest size of a value that is not 0: below it the log axis is straight.
 * @param {ChartDocument} chart
 */
function smallest({ columns }) {
  const sizes = columns.value.map((value) => Math.abs(value)).filter((size) => size > 0);
  return sizes.length ? Math.min(...sizes) : 1;
}

/**
 * A chart's rows under the lens: the steps that are looked at, means over the last few of them.
 * @param {ChartDocument} chart
 */
function seenRows(chart) {
  const rows = rowsOf(chart.columns);
  if (!chart.part) return rows;
  /** @type {Map<string, Record<string, any>[]>} */
  const latest = new Map();
  return rows.map((row) => {
    const before = [...(latest.get(row.run) || []), row].slice(-lens.smooth);
    latest.set(row.run, before);
    if (lens.smooth === 1) return row;
    const smoothed = { ...row };
    for (const name of ["value", "lo", "hi"]) {
      const known = before.map((one) => one[name]).filter((value) => typeof value === "number");
      if (typeof row[name] === "number") smoothed[name] = known.reduce((a, b) => a + b, 0) / known.length;
    }
    return smoothed;
  }).filter(({ x }) => !(x < lens.from) && !(x > lens.to));
}

/**
 * Bring a chart in line with its rows; one that has none at the steps looked at is hidden.
 * @param {Placed} one
 */
function showRows(one) {
  const rows = seenRows(one.chart);
  one.figure.hidden = !rows.length;
  if (rows.length && one.view) one.view.data("rows", rows).runAsync();
}

/**
 * Change the lens of all charts, in the address too.
 * @param {Partial<typeof lens>} change
 */
function lookThrough(change) {
  const log = lens.log;
  Object.assign(lens, change);
  writeLens();
  fillLens();
  for (const one of placed.values()) {
    if (!one.chart.part) continue;
    showRows(one);
    if (log !== lens.log) {
      one.drawn = false;
      if (one.view) one.view.finalize();
      one.view = null;
    }
  }
  drawShown();
}

/** The lens's part of an address. */
function writeLens() {
  if (page() !== "training") return;
  const words = new URLSearchParams();
  if (lens.smooth > 1) words.set("smooth", String(lens.smooth));
  if (lens.log) words.set("log", "1");
  if (!Number.isNaN(lens.from)) words.set("from", String(lens.from));
  if (!Number.isNaN(lens.to)) words.set("to", String(lens.to));
  const said = words.toString();
  history.replaceState(null, "", withSwitches(`#/training${said ? `?${said}` : ""}`));
}

/** Look as the address says; an address that says nothing gets what is looked at. */
function readLens() {
  const words = addressWords();
  if (!["smooth", "log", "from", "to"].some((name) => words.has(name))) return writeLens();
  /** @param {string} name */
  const number = (name) => Number.parseInt(words.get(name) || "", 10);
  lookThrough({ smooth: Math.min(500, Math.max(1, number("smooth") || 1)), log: words.get("log") === "1", from: number("from"), to: number("to") });
}

function fillLens() {
  for (const field of byId("chart-tools").querySelectorAll("input, select")) {
    if (field instanceof HTMLInputElement && field.type === "checkbox") field.checked = lens.log;
    else if (field instanceof HTMLSelectElement) field.value = String(lens.smooth);
    else if (field instanceof HTMLInputElement && field !== document.activeElement) {
      const value = lens[/** @type {"from"} */ (field.name)];
      field.value = Number.isNaN(value) ? "" : String(value);
    }
  }
}

/**
 * A line at the pointer's step in every chart, and a drag that looks at the steps it covers.
 * @param {Placed} one
 */
function followPointer(one) {
  /** @type {number} */
  let began = NaN;
  /** @param {MouseEvent} event */
  const stepAt = (event) => {
    if (!one.view) return NaN;
    const inside = event.clientX - one.place.getBoundingClientRect().left - one.view.origin()[0];
    return Math.round(one.view.scale("x").invert(inside));
  };
  one.place.addEventListener("pointermove", (event) => showCross(one, stepAt(event), began));
  one.place.addEventListener("pointerleave", () => { if (Number.isNaN(began)) hideCross(); });
  one.place.addEventListener("pointerdown", (event) => { if (event.button === 0 && event.pointerType === "mouse") began = stepAt(event); });
  one.place.addEventListener("pointerup", (event) => {
    const [low, high] = [began, stepAt(event)].sort((a, b) => a - b);
    began = NaN;
    hideCross();
    if (high - low >= 1) lookThrough({ from: low, to: high });
  });
  one.place.addEventListener("dblclick", () => lookThrough({ from: NaN, to: NaN }));
}

/**
 * @param {Placed} from
 * @param {number} step
 * @param {number} began where a drag began; NaN: there is none
 */
function showCross(from, step, began) {
  for (const one of placed.values()) {
    if (!one.view || one.chart.section !== from.chart.section) continue;
    let line = one.place.querySelector(".cross");
    if (!line) {
      line = make("div", { class: "cross", "aria-hidden": "true" });
      one.place.append(line);
    }
    if (!(line instanceof HTMLElement)) continue;
    const scale = one.view.scale("x"), [low, high] = scale.domain();
    const ends = [Number.isNaN(began) ? step : began, step].sort((a, b) => a - b);
    line.hidden = step < low || step > high;
    line.style.left = `${one.view.origin()[0] + scale(ends[0])}px`;
    line.style.width = `${Math.max(1, scale(ends[1]) - scale(ends[0]))}px`;
  }
}

function hideCross() {
  for (const line of document.querySelectorAll(".cross")) if (line instanceof HTMLElement) line.hidden = true;
}

/** Steps that each run has trained. @param {Progress[]} progress */
function showProgress(progress) {
  const place = document.getElementById("progress");
  if (!place) return;
  const rows = progress.map((one) => make("tr", { "data-run": one.key, class: `of-${one.key}` },
    make("th", { scope: "row" }, make("span", { class: "run" }, make("span", { class: "swatch" }), labelOf(one.key))),
    make("td", {}, `step ${one.step} of ${one.steps}`),
    make("td", { class: `state ${one.state}` }, one.state),
    make("td", {}, one.seconds_left === null ? "" : `about ${durationOf(one.seconds_left)} left`)));
  const going = progress.filter((one) => one.state === "running").length;
  const open = place.querySelector("details");
  place.replaceChildren(rows.length ? make("details", { open: open ? open.open : going > 0 || progress.some((one) => one.state !== "finished") && progress.length < 9 },
    make("summary", {}, going ? `${going} of ${progress.length} running` : progress.every((one) => one.state === "finished")
      ? `all ${progress.length} finished` : "progress of the runs"),
    make("div", { class: "scroll" }, make("table", { "aria-label": "Progress" }, make("tbody", {}, ...rows)))) : "");
  for (const row of place.querySelectorAll("tr")) row.hidden = hiddenRuns.has(row.dataset.run || "");
}

function startTraining() {
  const place = document.getElementById("chart-tools");
  if (!place) return;
  const smooth = make("select", { name: "smooth" });
  for (const steps of [1, 5, 10, 20, 50]) smooth.append(make("option", { value: steps }, steps === 1 ? "none" : `over ${steps} points`));
  const whole = make("button", { type: "reset" }, "All steps");
  place.append(make("form", { class: "filters", "aria-label": "Charts" },
    make("label", {}, make("span", {}, "Smoothing"), smooth),
    make("label", { class: "short" }, make("span", {}, "Steps from"), make("input", { type: "number", name: "from", min: "0" })),
    make("label", { class: "short" }, make("span", {}, "to"), make("input", { type: "number", name: "to", min: "0" })),
    whole,
    make("label", { class: "check" }, make("input", { type: "checkbox", name: "log" }), "log axis"),
    make("span", { class: "small" }, "Drag across a chart to look at its steps in all of them.")));
  place.addEventListener("submit", (event) => event.preventDefault());
  place.addEventListener("reset", (event) => {
    event.preventDefault();
    lookThrough({ from: NaN, to: NaN });
  });
  place.addEventListener("input", ({ target }) => {
    if (target instanceof HTMLSelectElement) lookThrough({ smooth: Number(target.value) });
    else if (target instanceof HTMLInputElement && target.type === "checkbox") lookThrough({ log: target.checked });
    else if (target instanceof HTMLInputElement) lookThrough({ [target.name]: Number.parseInt(target.value, 10) });
  });
  fillLens();
  showProgress(index.progress);
}
