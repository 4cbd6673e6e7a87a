// A page of runs that are still going asks from time to time what is new.
"use strict";

/**
 * @typedef {{charts: string, answers: string, error: string, progress: Progress[]}} State
 *   names that change with the logs and with the answers, and why files cannot be read ("")
 */

const EVERY = 1500; // milliseconds between two questions
const LIVE = "training"; // the section whose charts grow with the logs
/** @type {State | null} */
let known = null;

/** @param {State} state */
async function takeIn(state) {
  if (!known || state.charts !== known.charts) {
    const others = index.charts.filter(({ section }) => section !== LIVE);
    index.charts = [...others, ...await ask("api/charts")];
    showCharts();
    whenIdle(drawShown);
  }
  // A list does not change under a reader's eyes: a click shows what is new.
  byId("fresh").hidden = state.answers === document.documentElement.dataset.page;
  if (!known || JSON.stringify(state.progress) !== JSON.stringify(known.progress)) showProgress(state.progress);
  byId("reading").textContent = state.error;
  known = state;
}

async function look() {
  try {
    await takeIn(await ask("api/state"));
    byId("gone").hidden = true;
  } catch (error) {
    byId("gone").hidden = false; // the server was ended; it may come back
    if (!(error instanceof TypeError)) console.error(error);
  }
  window.setTimeout(look, EVERY);
}

function startLive() {
  byId("fresh").addEventListener("click", () => location.reload());
  look();
}
