// Search: ids and the ends of prompts at once; whole prompts, gold answers and answers once read.
"use strict";

/** @typedef {{questions: string[], answers: string[]}} Haystacks */

/** @type {Map<string, Haystacks>} */
const haystacks = new Map();
let reading = false;

/**
 * The words of a search in small letters; what stands in quotes is one.
 * @param {string} q
 */
function wordsOf(q) {
  return [...q.toLowerCase().matchAll(/"([^"]+)"?|(\S+)/g)].map((match) => match[1] || match[2]);
}

/**
 * Whether a problem has every word that is looked for.
 * @param {FileSet} set
 * @param {Filter} filter
 * @returns {(place: number) => boolean}
 */
function searcher(set, filter) {
  const words = wordsOf(filter.q);
  if (!words.length) return () => true;
  whenIdle(startReading);
  const read = haystacks.get(set.set);
  return (place) => {
    const question = (read && read.questions[place]) || `${set.ids[place]} ${set.excerpts[place]}`.toLowerCase();
    const answers = filter.answers && read ? read.answers[place] || "" : "";
    return words.every((word) => question.includes(word) || answers.includes(word));
  };
}

/** Read every text, piece by piece, as soon as one is looked for. */
async function startReading() {
  if (reading) return;
  reading = true;
  const all = /** @type {FileSet[]} */ (index.sets).flatMap((set) => set.pieces.map(([id]) => ({ set, id })));
  let done = 0;
  for (const { set, id } of all) {
    note(set, await piece(id));
    done += 1;
    for (const told of onRead) told(done, all.length);
    await new Promise((resolve) => setTimeout(resolve, 0)); // let the page answer in between
  }
}

/**
 * @param {FileSet} set
 * @param {any} found a piece
 */
function note(set, found) {
  const stacks = haystacks.get(set.set) || { questions: [], answers: [] };
  haystacks.set(set.set, stacks);
  /** @type {Set<number>[]} */
  const texts = found.problems.map(() => new Set());
  for (const columns of Object.values(found.runs)) {
    let row = 0;
    columns.groups.forEach((/** @type {number} */ count, /** @type {number} */ at) => {
      for (const end = row + count; row < end; row++) texts[at].add(columns.text[row]);
    });
  }
  found.problems.forEach((/** @type {Problem} */ problem, /** @type {number} */ at) => {
    const place = found.first + at;
    const fields = Object.values(problem.fields).map((value) => (typeof value === "string" ? value : JSON.stringify(value)));
    stacks.questions[place] = [set.ids[place], problem.prompt || "", ...fields].join("\n").toLowerCase();
    stacks.answers[place] = [...texts[at]].map((text) => found.texts[text]).join("\n").toLowerCase();
  });
}
