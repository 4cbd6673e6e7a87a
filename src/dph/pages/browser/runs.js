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

/** @returns {HTMLInputElement[]} */
function runSwitches() {
  return [...byId("runs").querySelectorAll("input")];
}

/** Show what is switched on, and nothing else. */
function applyRuns() {
  hiddenRuns.clear();
  for (const box of runSwitches()) if (!box.checked) hiddenRuns.add(box.value);
  for (const element of document.querySelectorAll("main [data-run]")) {
    if (element instanceof HTMLElement) element.hidden = hiddenRuns.has(element.dataset.run || "");
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
