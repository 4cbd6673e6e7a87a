// The packed blocks of the page: gzip in base64, read when they are needed.
"use strict";

/**
 * @typedef {{samples: number[], correct: number[], greedy: number[], outcomes: number[][],
 *   styles: number[][], change: string[]}} RunIndex
 * @typedef {{set: string, ids: string[], excerpts: string[], runs: Record<string, RunIndex>,
 *   pieces: [string, number][]}} SetIndex
 * @typedef {{section: string, title: string, caption: string, spec: Record<string, any>,
 *   columns: Record<string, any[]>}} ChartDocument
 * @typedef {{key: string, label: string, base: boolean}} Run
 * @typedef {{runs: Run[], charts: ChartDocument[], sets: SetIndex[], outcomes: string[],
 *   styles: string[]}} Index
 * @typedef {{prompt: string | null, length?: number, fields: Record<string, any>}} Problem
 * @typedef {{text: string, length: number, outcome: string, reason: string, style: string | null,
 *   reward: number, tokens: number, cut: boolean, samples: number[], detail: TokenDetail | null}} Answer
 * @typedef {{pieces: string[], logprob: number[], entropy: number[], ratio: number[]}} TokenDetail
 * @typedef {{answers: Answer[], different: number}} RunAnswers
 * @typedef {{problem: Problem, runs: Record<string, RunAnswers>}} WholeProblem
 */

/**
 * The value in the element `id`.
 * @param {string} id
 * @returns {Promise<any>}
 */
async function unpack(id) {
  const letters = byId(id).textContent || "";
  const binary = atob(letters);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** @type {Index} */
let index;
/** @type {Map<string, Promise<any>>} */
const pieces = new Map();

/**
 * A piece of neighbouring problems, unpacked once.
 * @param {string} id
 */
function piece(id) {
  let found = pieces.get(id);
  if (!found) {
    found = unpack(id);
    pieces.set(id, found);
  }
  return found;
}

/**
 * @param {string} name
 * @returns {SetIndex | undefined}
 */
function setNamed(name) {
  return index.sets.find((set) => set.set === name);
}

/**
 * A problem with the answers of every run.
 * @param {SetIndex} set
 * @param {number} place of the problem in its set
 * @returns {Promise<WholeProblem>}
 */
async function wholeProblem(set, place) {
  const [id] = set.pieces.filter(([, first]) => first <= place).slice(-1)[0];
  const found = await piece(id);
  const at = place - found.first;
  /** @type {Record<string, RunAnswers>} */
  const runs = {};
  for (const [key, columns] of Object.entries(found.runs)) {
    runs[key] = { answers: answersAt(found, columns, at), different: columns.different[at] };
  }
  return { problem: found.problems[at], runs };
}

/**
 * @param {any} found a piece
 * @param {any} columns of a run
 * @param {number} at problem in the piece
 * @returns {Answer[]}
 */
function answersAt(found, columns, at) {
  let start = 0;
  for (let i = 0; i < at; i++) start += columns.groups[i];
  return Array.from({ length: columns.groups[at] }, (_, i) => {
    const row = start + i;
    const text = found.texts[columns.text[row]];
    return {
      text,
      length: found.lengths[columns.text[row]] || text.length,
      outcome: index.outcomes[columns.outcome[row]],
      reason: found.reasons[columns.reason[row]],
      style: columns.style[row] < 0 ? null : index.styles[columns.style[row]],
      reward: columns.reward[row],
      tokens: columns.tokens[row],
      cut: columns.cut[row],
      samples: columns.samples[row],
      detail: columns.detail[row],
    };
  });
}
