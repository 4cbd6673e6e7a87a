// What pages are made of (file.js reads it).
"use strict";

/**
 * @typedef {{section: string, name: string, title: string, caption: string,
 *   part: string, spec: Record<string, any>,
 *   columns: Record<string, any[]>}} ChartDocument
 * @typedef {{key: string, label: string, base: boolean}} Run
 * @typedef {{set: string, size: number, runs: Record<string, any>}} SetIndex a set and its runs
 * @typedef {{key: string, label: string, runs: string[]}} Group runs that differ in their seed alone
 * @typedef {{runs: Run[], groups: Group[], words: Record<string, string>, table: RunTable,
 *   progress: Progress[],
 *   charts: ChartDocument[], sets: SetIndex[], outcomes: string[],
 *   seen: string[], styles: string[]}} Index `seen` are the outcomes that some answer has
 * @typedef {{samples: number, correct: number, greedy: number, change: string}} RunScore
 *   `greedy` is -1 where there is no greedy answer
 * @typedef {{id: string, excerpt: string, runs: Record<string, RunScore>}} Listed a line of the list
 * @typedef {{count: number, row: (row: number) => Listed | null}} Listing
 *   a row that is still to come is null
 * @typedef {{prompt: string | null, length?: number, fields: Record<string, any>}} Problem
 * @typedef {{text: string, length: number, outcome: string, reason: string, style: string | null,
 *   reward: number, tokens: number | null, cut: boolean, samples: number[], detail: TokenDetail | null}} Answer
 * @typedef {{pieces: string[], logprob: (number|null)[], entropy: (number|null)[],
 *   ratio: (number|null)[]}} TokenDetail
 * @typedef {{answers: Answer[], different: number}} RunAnswers
 * @typedef {{set: SetIndex, listed: Listed, problem: Problem, runs: Record<string, RunAnswers>,
 *   at: number, of: number, previous: string | null, next: string | null}} Opened
 *   a problem with every run's answers, and its place in the list that it was chosen from
 */

/** @type {Index} */
let index;

/**
 * @param {string} name
 * @returns {SetIndex | undefined}
 */
function setNamed(name) {
  return index.sets.find((set) => set.set === name);
}

/**
 * The share of a run's samples that are correct; -1 where there are none.
 * @param {RunScore} score
 */
function share(score) {
  return score.samples ? score.correct / score.samples : -1;
}

/**
 * The largest difference between the runs' shares of correct samples; -1 where none has any.
 * @param {Listed} problem
 * @param {string[]} keys
 */
function spread(problem, keys) {
  const shares = keys.map((key) => share(problem.runs[key])).filter((value) => value >= 0);
  return shares.length ? Math.max(...shares) - Math.min(...shares) : -1;
}

/** @type {((done: number, all: number) => void)[]} Told how many parts of the texts were read. */
const onRead = [];
