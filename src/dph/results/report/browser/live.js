// A page of runs that are still going asks from time to time what is new.
"use strict";

/**
 * @typedef {{charts: string, answers: string, reading: string, texts: [number, number],
 *   progress: Progress[]}} State
 *   names of what the charts and the answers are made of, what is being read (""), texts read
 */

const EVERY = 1500; // milliseconds between two questions
/** @type {State | null} */
let known = null;

/** @param {State} state */
async function takeIn(state) {
  if (!known || state.charts !== known.charts) {
    index.charts = (await ask("charts")) || index.charts;
    showCharts();
    whenIdle(drawShown);
  }
  if (state.answers !== document.documentElement.dataset.page) showFresh(state.answers);
  if (!known || JSON.stringify(state.progress) !== JSON.stringify(known.progress)) showProgress(state.progress);
  byId("reading").textContent = state.reading;
  if (!known || String(state.texts) !== String(known.texts)) {
    for (const told of onRead) told(...state.texts);
  }
  known = state;
}

/**
 * Lists do not change under a reader's eyes: there a click shows what is new.
 * @param {string} answers
 */
function showFresh(answers) {
  const analysed = `${document.documentElement.dataset.page}-analysed` === answers;
  if (analysed && !page().startsWith("problem")) location.reload();
  else byId("fresh").hidden = false;
}

async function look() {
  try {
    await takeIn(await ask("state"));
    byId("gone").hidden = true;
  } catch (error) {
    byId("gone").hidden = false; // the server was ended; it may come back
    if (!(error instanceof TypeError)) console.error(error);
  }
  window.setTimeout(look, EVERY);
}

function startReading() {
  byId("fresh").addEventListener("click", () => location.reload());
  look();
}
