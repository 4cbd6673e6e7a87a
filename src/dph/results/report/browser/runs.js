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

let folded = true; // whether seeds are shown as their method

/** What charts draw: runs that are switched on; where seeds are folded, their group instead. */
function shownSeries() {
  const runs = shownRuns();
  if (!folded) return runs;
  const groups = index.groups.filter((group) => group.runs.some((key) => !hiddenRuns.has(key)));
  return [...runs.filter((run) => !groups.some((group) => group.runs.includes(run.key))), ...groups];
}

/** @returns {HTMLInputElement[]} */
function runSwitches() {
  return [...byId("runs").querySelectorAll("input")];
}

/**
 * An address of the page that says which runs are switched off too.
 * @param {string} address
 */
function withSwitches(address) {
  const [path, asked = ""] = address.split("?");
  const words = new URLSearchParams(asked);
  words.delete("off");
  if (hiddenRuns.size) words.set("off", [...hiddenRuns].join(" "));
  const said = words.toString();
  return said ? `${path}?${said}` : path;
}

/** Switch runs as the address says; an address that says nothing gets what is switched. */
function readSwitches() {
  const off = new URLSearchParams(location.hash.split("?")[1] || "").get("off");
  if (off === null) return writeSwitches();
  const keys = off.split(/[ +]/), boxes = runSwitches();
  if (boxes.every((box) => keys.includes(box.value))) return;
  for (const box of boxes) box.checked = !keys.includes(box.value);
  applyRuns();
}

function writeSwitches() {
  if (!hiddenRuns.size && !/[?&]off=/.test(location.hash)) return;
  history.replaceState(null, "", withSwitches(location.hash || "#/"));
}

/** Show what is switched on, and nothing else. */
function applyRuns() {
  hiddenRuns.clear();
  for (const box of runSwitches()) if (!box.checked) hiddenRuns.add(box.value);
  writeSwitches();
  for (const element of document.querySelectorAll("main [data-run]")) {
    if (!(element instanceof HTMLElement)) continue;
    element.hidden = (element.dataset.run || "").split(" ").every((key) => hiddenRuns.has(key));
  }
  for (const changed of onRunsChanged) changed();
}

/**
 * Switch a run by its place; the last one that is shown stays.
 * @param {number} place
 */
function toggleRun(place) {
  const box = runSwitches()[place];
  if (box) box.click();
}

function startRuns() {
  byId("runs").addEventListener("change", (event) => {
    if (event.target instanceof HTMLInputElement && runSwitches().every((box) => !box.checked)) {
      event.target.checked = true;
      say("one run stays");
    }
    applyRuns();
  });
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
