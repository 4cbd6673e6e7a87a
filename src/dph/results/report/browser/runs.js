// Which runs are shown: one switch for tables, charts and problems alike. And light or dark.
"use strict";

/** @type {Set<string>} */
const hiddenRuns = new Set();
/** @type {(() => void)[]} */
const onRunsChanged = [];

/** The runs that are switched on, in the page's order. */
function shownRuns() {
  return index.runs.filter((run) => !hiddenRuns.has(run.key));
}

/** @type {Record<string, string>} How seeds of a method are shown, by its name in an address. */
const SEEDS = { "": "seeds as one", method: "seeds apart, by method", seed: "seeds apart, by seed" };
let seeds = "";

/** Whether seeds are shown as their method. */
function isFolded() {
  return seeds === "" && index.groups.length > 0;
}

/** What charts draw: runs that are switched on; where seeds are folded, their group instead. */
function shownSeries() {
  const runs = shownRuns();
  if (!isFolded()) return runs;
  const groups = index.groups.filter((group) => group.runs.some((key) => !hiddenRuns.has(key)));
  return [...runs.filter((run) => !groups.some((group) => group.runs.includes(run.key))), ...groups];
}

const MOST_COLUMNS = 12;
let firstColumn = 0; // of the runs that lists and problems show side by side

/**
 * A page of the runs that are switched on, at most MOST_COLUMNS of them.
 * @template {Run} T
 * @param {T[]} runs
 */
function columnsOf(runs) {
  if (firstColumn >= runs.length) firstColumn = 0;
  return runs.slice(firstColumn, firstColumn + MOST_COLUMNS);
}

/**
 * Which of the runs are shown side by side, and buttons for others; null where all are.
 * @param {Run[]} runs
 * @param {() => void} turned
 */
function columnPages(runs, turned) {
  if (runs.length <= MOST_COLUMNS) return null;
  const last = Math.min(runs.length, firstColumn + MOST_COLUMNS);
  /** @param {number} by @param {string} sign @param {string} label */
  const turn = (by, sign, label) => {
    const to = firstColumn + by * MOST_COLUMNS;
    const button = make("button", { type: "button", "aria-label": label, disabled: to < 0 || to >= runs.length }, sign);
    button.addEventListener("click", () => { firstColumn = to; writeSwitches(); turned(); });
    return button;
  };
  return make("span", { class: "pages" }, `runs ${firstColumn + 1} to ${last} of ${runs.length} `,
    turn(-1, "‹", "runs before these"), turn(1, "›", "runs after these"));
}

/** @returns {HTMLInputElement[]} a box for each run */
function runSwitches() {
  return [...byId("runs").querySelectorAll("input")].filter((box) => !box.dataset.group);
}

/** @returns {HTMLInputElement[]} the boxes of groups of seeds */
function groupSwitches() {
  return [...byId("runs").querySelectorAll("input")].filter((box) => box.dataset.group);
}

/**
 * An address of the page that says which runs are switched off too.
 * @param {string} address
 */
function withSwitches(address) {
  const [path, asked = ""] = address.split("?");
  const words = new URLSearchParams(asked);
  for (const name of ["off", "only", "seeds", "first"]) words.delete(name);
  const on = shownRuns().map((run) => run.key);
  if (hiddenRuns.size > on.length) words.set("only", on.join(" "));
  else if (hiddenRuns.size) words.set("off", [...hiddenRuns].join(" "));
  if (seeds) words.set("seeds", seeds);
  if (firstColumn) words.set("first", String(firstColumn + 1));
  const said = words.toString();
  return said ? `${path}?${said}` : path;
}

/** The words of the address that is open. */
function addressWords() {
  return new URLSearchParams(location.hash.split("?")[1] || "");
}

/** Switch runs as the address says; an address that says nothing gets what is switched. */
function readSwitches() {
  const words = addressWords(), off = words.get("off"), only = words.get("only");
  const asked = words.get("seeds");
  if (![off, only, asked, words.get("first")].some((word) => word !== null)) return writeSwitches();
  const keys = (off || only || "").split(/[ +]/), boxes = runSwitches();
  firstColumn = Math.max(0, (Number.parseInt(words.get("first") || "", 10) || 1) - 1);
  seeds = asked !== null && asked in SEEDS ? asked : "";
  /** @param {string} key */
  const isOn = (key) => (only !== null ? keys.includes(key) : !keys.includes(key));
  if (boxes.some((box) => isOn(box.value))) for (const box of boxes) box.checked = isOn(box.value);
  applyRuns();
}

function writeSwitches() {
  const address = location.hash || "#/", said = withSwitches(address);
  if (said !== address) history.replaceState(null, "", said);
}

/** A sentence for each word of the address about runs that names nothing there is. */
function wrongSwitches() {
  const words = addressWords(), keys = index.runs.map((run) => run.key);
  const unknown = ["off", "only"].flatMap((name) =>
    (words.get(name) || "").split(/[ +]/).filter((key) => key && !keys.includes(key)));
  const asked = words.get("seeds") || "";
  return [
    ...unknown.map((key) => `The address asks for the run ${key}, which is unknown and ignored; there is ${keys.join(", ")}.`),
    ...(asked in SEEDS ? [] : [`The address asks for seeds=${asked}, which is unknown and ignored; seeds is one of method, seed.`]),
  ];
}

/** Bring the switches in line with what is shown. */
function drawSwitches() {
  hiddenRuns.clear();
  for (const box of runSwitches()) {
    if (!box.checked) hiddenRuns.add(box.value);
    const of = index.groups.some((group) => group.runs.includes(box.value));
    if (box.parentElement) box.parentElement.hidden = isFolded() && of;
  }
  for (const box of groupSwitches()) {
    const group = index.groups.find((one) => one.key === box.dataset.group);
    const on = group ? group.runs.filter((key) => !hiddenRuns.has(key)).length : 0;
    box.checked = on > 0;
    box.indeterminate = group !== undefined && on > 0 && on < group.runs.length;
    if (box.parentElement) box.parentElement.hidden = !isFolded();
  }
  const chooser = document.getElementById("seeds");
  if (chooser instanceof HTMLSelectElement) chooser.value = seeds;
}

/** Show what is switched on, and nothing else. */
function applyRuns() {
  drawSwitches();
  writeSwitches();
  for (const element of document.querySelectorAll("main [data-run]")) {
    if (!(element instanceof HTMLElement)) continue;
    element.hidden = (element.dataset.run || "").split(" ").every((key) => hiddenRuns.has(key));
  }
  for (const changed of onRunsChanged) changed();
}

/**
 * Switch a run, or the seeds that are shown as one, by its place; the last one that is shown stays.
 * @param {number} place
 * @param {boolean} alone show it and nothing else
 */
function toggleRun(place, alone) {
  const label = [...byId("runs").querySelectorAll("label")].filter((one) => !one.hidden)[place];
  if (label && alone) showAlone(label);
  else if (label) label.click();
}

/** @param {HTMLElement} label of a run, or of the seeds that are shown as one */
function showAlone(label) {
  const box = label.querySelector("input");
  if (!box) return;
  const group = index.groups.find((one) => one.key === box.dataset.group);
  for (const one of runSwitches()) one.checked = group ? group.runs.includes(one.value) : one === box;
  applyRuns();
}

/** A box for each group of seeds in front of its runs, and the choice of how seeds are shown. */
function addGroupSwitches() {
  for (const group of index.groups) {
    const first = runSwitches().find((box) => box.value === group.runs[0]);
    const label = make("label", { class: `of-${group.key}` },
      make("input", { type: "checkbox", "data-group": group.key, checked: true }), make("span", { class: "swatch" }), group.label);
    if (first && first.parentElement) first.parentElement.before(label);
  }
  if (!index.groups.length) return;
  const chooser = make("select", { id: "seeds", "aria-label": "Seeds" });
  for (const [value, text] of Object.entries(SEEDS)) chooser.append(make("option", { value }, text));
  chooser.addEventListener("change", () => {
    seeds = /** @type {HTMLSelectElement} */ (chooser).value;
    applyRuns();
  });
  byId("theme").before(chooser);
}

function startRuns() {
  addGroupSwitches();
  byId("runs").addEventListener("change", ({ target }) => {
    if (!(target instanceof HTMLInputElement)) return;
    const group = index.groups.find((one) => one.key === target.dataset.group);
    const mine = group ? runSwitches().filter((box) => group.runs.includes(box.value)) : [];
    for (const box of mine) box.checked = target.checked;
    if (runSwitches().every((box) => !box.checked)) {
      for (const box of group ? mine : [target]) box.checked = true;
      say("one run stays");
    }
    applyRuns();
  });
  byId("runs").addEventListener("dblclick", ({ target }) => {
    const label = target instanceof Element ? target.closest("label") : null;
    if (label) showAlone(label);
  });
  drawSwitches();
}

const THEMES = ["auto", "light", "dark"];
const THEME_SIGNS = { auto: "◐", light: "○", dark: "●" };

function startTheme() {
  const button = byId("theme");
  /** @param {string} theme */
  const apply = (theme) => {
    document.documentElement.dataset.theme = theme;
    button.textContent = THEME_SIGNS[/** @type {"auto"} */ (theme)];
    button.setAttribute("aria-label", `Colours: ${theme}`);
  };
  apply("auto");
  button.addEventListener("click", () => {
    const at = THEMES.indexOf(document.documentElement.dataset.theme || "auto");
    apply(THEMES[(at + 1) % THEMES.length]);
  });
}
