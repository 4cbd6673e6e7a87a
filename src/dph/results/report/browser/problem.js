// A problem's page: prompt, gold, and the answers of every run side by side.
"use strict";

/** @type {Opened | null} */
let opened = null;
let redrawColumns = () => {};
onRunsChanged.push(() => redrawColumns());

/**
 * Letters for the different answers to a problem, the most frequent first: A, B ... Z, A2, B2 ...
 * @param {Opened} whole
 * @returns {Map<string, string>}
 */
function lettersOf(whole) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { answers } of Object.values(whole.runs)) {
    for (const answer of answers) counts.set(answer.text, (counts.get(answer.text) || 0) + answer.samples.length);
  }
  const ranked = [...counts].sort((a, b) => b[1] - a[1]);
  return new Map(ranked.map(([text], i) =>
    [text, String.fromCharCode(65 + (i % 26)) + (i < 26 ? "" : String(1 + Math.floor(i / 26)))]));
}

/**
 * @param {Answer} answer
 * @param {string} letter
 */
function answerCard(answer, letter) {
  const drawn = answer.samples.filter((sample) => sample >= 0).length;
  const greedy = answer.samples.some((sample) => sample < 0);
  const mark = make("button", { type: "button", class: "letter", title: "show the same answer in other runs", "aria-pressed": "false" }, letter);
  mark.addEventListener("click", () => markSame(letter));
  const head = make("div", { class: "head" }, mark,
    drawn ? make("b", { class: "times" }, `${drawn}×`) : null,
    greedy ? make("span", { class: "tag" }, "greedy") : null,
    make("span", { class: `outcome ${answer.outcome}` }, answer.outcome.replaceAll("_", " ").toLowerCase()),
    answer.style === null ? null : make("span", { class: "tag" }, ...visible(answer.style)),
    make("span", { class: "small" }, `${answer.tokens === null ? "" : `${answer.tokens} tokens`}${answer.cut ? ", cut off" : ""}${answer.reward > 0 && answer.reward < 1 ? `, reward ${answer.reward.toFixed(2)}` : ""}`));
  const differs = make("button", { type: "button", class: "letter", title: "how this answer differs from another one" }, "differs");
  head.append(differs);
  const card = make("li", { class: "answer", "data-letter": letter }, head,
    answer.reason ? make("p", { class: "reason" }, ...visible(answer.reason)) : null,
    answer.detail ? tokenBlock(answer.detail) : textBlock(answer.text, answer.length));
  differs.addEventListener("click", () => compareAnswer(card, answer, letter));
  return card;
}

/** @type {{letter: string, text: string} | null} the answer that others are compared with */
let comparedWith = null;

/**
 * Show how an answer differs from the one that was chosen first; the first choice is remembered.
 * @param {HTMLElement} card
 * @param {Answer} answer
 * @param {string} letter
 */
function compareAnswer(card, answer, letter) {
  const shown = card.querySelector(".difference");
  if (shown) return shown.remove();
  if (!comparedWith || comparedWith.letter === letter) {
    comparedWith = { letter, text: answer.text };
    return say(`answer ${letter} is remembered: choose "differs" at another one`);
  }
  card.append(make("p", { class: "small difference-head" }, `against ${comparedWith.letter}`), differenceBlock(answer.text, comparedWith.text));
  const head = card.querySelector(".difference-head"), block = card.querySelector(".difference");
  if (head && block) block.prepend(head);
}

/** @param {string} letter */
function markSame(letter) {
  for (const card of byId("problem").querySelectorAll(".answer")) {
    const same = card instanceof HTMLElement && card.dataset.letter === letter && !card.classList.contains("same");
    card.classList.toggle("same", same);
    const button = card.querySelector(".letter");
    if (button) button.setAttribute("aria-pressed", String(same));
  }
}

/**
 * @param {Run} run
 * @param {Opened} of
 * @param {Map<string, string>} letters
 */
function runColumn(run, of, letters) {
  const score = of.listed.runs[run.key], found = of.runs[run.key];
  const answers = make("ol", { class: "answers" }, ...found.answers.map((answer) => answerCard(answer, letters.get(answer.text) || "")));
  return make("section", { class: `column of-${run.key}`, "data-run": run.key, "aria-label": run.label },
    make("h3", {}, make("span", { class: "swatch" }), run.label),
    make("p", { class: "score" }, shareBar(score), make("b", {}, `${score.correct} of ${score.samples} correct`),
      score.greedy < 0 ? null : make("span", { class: "small" }, score.greedy ? "greedy correct" : "greedy not correct"),
      score.change ? make("span", { class: `change ${score.change}` }, score.change) : null),
    make("p", { class: "small kept" }, keptOf(found)),
    answers);
}

/** @param {RunAnswers} found */
function keptOf({ answers, different }) {
  if (answers.length < different) return `the ${answers.length} most frequent of ${different} different answers`;
  return different === 1 ? "1 answer" : `${different} different answers`;
}

/**
 * Fields of a problem's row, the gold answer among them.
 * @param {Problem} problem
 */
function fieldList(problem) {
  const rows = Object.entries(problem.fields).map(([name, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    const long = name.startsWith("gold") || name === "answer" || text.length > 80;
    return [make("dt", {}, ...visible(name)), make("dd", {}, ...(long ? [textBlock(text)] : visible(text)))];
  });
  rows.sort((a, b) => Number(/^(gold|answer)/.test(b[0].textContent || "")) - Number(/^(gold|answer)/.test(a[0].textContent || "")));
  return rows.length ? make("dl", { class: "fields" }, ...rows.flat()) : null;
}

/**
 * @param {string} setName
 * @param {string} id
 */
async function showProblem(setName, id) {
  const page = byId("problem"), set = setNamed(setName);
  if (set && filter.set !== set.set) filter = { ...filter, set: set.set };
  const whole = set ? await readProblem(set, id, filter, shownRuns().map((run) => run.key)) : null;
  if (!location.hash.startsWith("#/problem/")) return; // another page was opened meanwhile
  opened = whole;
  if (!whole) {
    page.replaceChildren(make("p", { class: "note" }, ...visible(`There is no problem ${id} in ${setName}.`)), make("a", { href: "#/problems" }, "All problems"));
    return;
  }
  comparedWith = null;
  const letters = lettersOf(whole), { problem } = whole;
  const drawn = make("div", { class: "columns" }), pages = make("div", { class: "note" });
  const drawColumns = () => {
    const all = shownRuns().filter((run) => whole.runs[run.key]);
    drawn.replaceChildren(...columnsOf(all).map((run) => runColumn(run, whole, letters)));
    pages.replaceChildren(columnPages(all, drawColumns) || "");
  };
  drawColumns();
  redrawColumns = drawColumns;
  page.replaceChildren(
    problemHead(whole),
    make("div", { class: "question" },
      make("h3", {}, "Prompt"),
      problem.prompt === null ? make("p", { class: "note" }, "The file of problems is missing.") : textBlock(problem.prompt, problem.length),
      fieldList(problem), noteForm(set ? set.set : "", id)),
    Object.values(whole.runs).some(({ answers }) => answers.some((answer) => answer.detail)) ? colouringChoice() : "",
    pages, drawn);
  document.title = `${id} – ${setName}`;
}

/** @param {Opened} of */
function problemHead({ set, listed, at, of, previous, next }) {
  /** @param {string | null} to @param {string} sign @param {string} label */
  const step = (to, sign, label) => to !== null
    ? make("a", { class: "button", href: problemAddress(set.set, to), "aria-label": label, title: label, id: label.startsWith("next") ? "next" : "previous" }, sign)
    : make("span", { class: "button off", "aria-hidden": "true" }, sign);
  const copy = make("button", { type: "button", id: "copy" }, "Copy as JSON");
  copy.addEventListener("click", copyProblem);
  const address = filterAddress(filter);
  return make("header", { class: "problem-head" },
    make("a", { href: `#/problems${address ? `?${address}` : ""}`, id: "back" }, "Problems"), make("span", { "aria-hidden": "true" }, "›"),
    make("span", {}, ...visible(set.set.replaceAll("_", " "))), make("span", { "aria-hidden": "true" }, "›"),
    make("h2", {}, ...visible(listed.id)),
    make("span", { class: "small" }, `${(at + 1).toLocaleString()} of ${of.toLocaleString()}`),
    make("span", { class: "steps" }, step(previous, "‹", "previous problem"), step(next, "›", "next problem"), copy));
}

/** The opened problem as one JSON document. */
function problemJson() {
  if (!opened) return "";
  const { set, listed, problem, runs: answersOf } = opened;
  const runs = Object.fromEntries(shownRuns().filter((run) => answersOf[run.key]).map((run) => {
    const of = listed.runs[run.key], found = answersOf[run.key];
    return [run.label, {
      correct: of.correct, samples: of.samples,
      greedy: of.greedy < 0 ? null : Boolean(of.greedy), change: of.change || null,
      different_answers: found.different,
      answers: found.answers.map((answer) => ({ ...answer, count: answer.samples.length, cut: undefined, detail: undefined, tokens_in_detail: answer.detail || undefined, cut_off: answer.cut })),
    }];
  }));
  return JSON.stringify({ set: set.set, problem_id: listed.id, prompt: problem.prompt, fields: problem.fields, runs }, null, 2);
}

async function copyProblem() {
  const text = problemJson();
  if (!text) return;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", { "aria-hidden": "true", class: "unseen" });
    /** @type {HTMLTextAreaElement} */ (area).value = text;
    document.body.append(area);
    /** @type {HTMLTextAreaElement} */ (area).select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) return say("this browser does not allow the page to copy");
  }
  return say("copied as JSON");
}
