// What is shown at which address: #/ #/training #/diagnosis #/problems?... #/problem/<set>/<id>
"use strict";

const TITLE = document.title;

const PAGES = ["overview", "training", "diagnosis", "problems", "problem"];

/** The page that the address names; "" is the overview. */
function pageAsked() {
  return location.hash.replace(/^#\/?/, "").split(/[/?]/)[0];
}

/** The page that is shown; the overview where the address names none that there is. */
function page() {
  return PAGES.find((one) => one === pageAsked() && document.getElementById(one)) || "overview";
}

/** Open the diagnosis of the run that the address names. */
function showDiagnosis() {
  const article = document.getElementById(`diagnosis-${addressWords().get("run") || ""}`);
  const details = article && article.querySelector("details");
  if (!article || !details) return;
  details.open = true;
  window.setTimeout(() => article.scrollIntoView(), 0);
}

/** Say which words of the address name nothing that there is. */
function tellWrong() {
  const asked = pageAsked(), there = PAGES.filter((one) => document.getElementById(one) && one !== "problem");
  const wrong = [
    ...(asked === "" || page() === asked ? [] : [`There is no page ${asked} here, so this is the overview; there is ${there.join(", ")}.`]),
    ...wrongSwitches(),
    ...(page() === "overview" ? wrongTable() : []),
  ];
  byId("wrong").replaceChildren(...wrong.map((what) => make("p", { class: "empty wrong" }, ...visible(what))));
}

/** @param {boolean} [first] whether the page was just opened */
async function showPage(first = false) {
  const asked = location.hash;
  tellWrong();
  readSwitches();
  const name = page();
  for (const section of document.querySelectorAll("main > section")) {
    if (section instanceof HTMLElement) section.hidden = section.id !== name;
  }
  for (const link of document.querySelectorAll("nav a")) {
    const mine = link instanceof HTMLElement && link.dataset.page === (name === "problem" ? "problems" : name);
    if (mine) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  byId("tip").hidden = true;
  document.title = TITLE;
  if (name === "overview") readTable();
  if (name === "training") readLens();
  if (name === "diagnosis") showDiagnosis();
  if (name === "problems") {
    filter = filterOf(location.hash.split("?")[1] || "");
    await showProblems();
    list.focus();
  }
  if (name === "problem") {
    const words = location.hash.split("?")[1] || "", asks = filterOf(words);
    if (filterAddress(asks)) filter = asks;
    const [set, id] = location.hash.split("?")[0].replace("#/problem/", "").split("/").map(readable);
    await showProblem(set || "", id || "");
    window.scrollTo(0, 0);
  }
  if (!first && name !== "problems") byId("main").focus({ preventScroll: name === "problem" });
  whenIdle(drawShown);
  document.documentElement.dataset.shown = asked || "#/";
}

/**
 * A part of an address as text; one that is badly written stays as it is.
 * @param {string} part
 */
function readable(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @param {() => void} call */
function whenIdle(call) {
  if (window.requestIdleCallback) window.requestIdleCallback(() => call());
  else window.setTimeout(call, 200);
}

async function start() {
  startTheme();
  index = await readIndex();
  startRuns();
  startMeanings();
  startTable();
  startTraining();
  if (index.sets.length) startProblems();
  startKeyboard();
  startCharts();
  await showPage(true);
  window.addEventListener("hashchange", () => showPage());
  document.documentElement.dataset.ready = "yes";
  if (document.documentElement.dataset.page) startLive();
}

start();
