// The data of the page, read when they are needed: in the page itself as gzip in base64, or from the
// server that it came from.
"use strict";

/**
 * The value in the element `id`, or the server's part of that name.
 * @param {string} id
 * @returns {Promise<any>}
 */
async function unpack(id) {
  const inside = document.getElementById(id);
  if (!inside) return ask(`data/${id}`);
  const binary = atob(inside.textContent || "");
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/**
 * @param {string} what of the server's addresses
 * @returns {Promise<any>}
 */
async function ask(what) {
  const answer = await fetch(what);
  if (!answer.ok) throw new Error(`${what}: ${answer.status}`);
  return answer.json();
}

/** @returns {Promise<Index>} */
function readIndex() {
  return unpack("index");
}

/** Run the charts' script, which takes longer than the rest of the page and is not always needed. */
async function readVega() {
  const inside = document.getElementById("vega");
  // The page's policy lets a script run whose text has the hash that it names.
  if (inside) return document.body.append(make("script", {}, inside.textContent));
  const script = make("script", { src: "vega.js" });
  await new Promise((resolve, reject) => {
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error("the script of the charts did not load")));
    document.body.append(script);
  });
}

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
 * @param {SetIndex} set
 * @param {Filter} filter
 * @param {string[]} shown
 */
function placesOf(set, filter, shown) {
  const mine = /** @type {FileSet} */ (set);
  return placesListed(mine, filter, shown, searcher(mine, filter));
}

/**
 * The problems that pass a filter.
 * @param {SetIndex} set
 * @param {Filter} filter
 * @param {string[]} shown keys of the runs that are switched on
 * @returns {Promise<Listing>}
 */
async function readListing(set, filter, shown) {
  const places = placesOf(set, filter, shown);
  return { count: places.length, row: (row) => lineAt(/** @type {FileSet} */ (set), places[row]) };
}

/**
 * A problem with the answers of every run, and where it stands in a list; null: there is none.
 * @param {SetIndex} of
 * @param {string} id
 * @param {Filter} filter
 * @param {string[]} shown
 * @returns {Promise<Opened | null>}
 */
async function readProblem(of, id, filter, shown) {
  const set = /** @type {FileSet} */ (of), place = set.ids.indexOf(id);
  if (place < 0) return null;
  const [name] = set.pieces.filter(([, first]) => first <= place).slice(-1)[0];
  const found = await piece(name), at = place - found.first;
  /** @type {Record<string, RunAnswers>} */
  const runs = {};
  for (const [key, columns] of Object.entries(found.runs)) {
    runs[key] = { answers: answersAt(found, columns, at), different: columns.different[at] };
  }
  const listed = placesOf(set, filter, shown);
  const around = listed.includes(place) ? listed : set.ids.map((_, i) => i), row = around.indexOf(place);
  return {
    set, problem: found.problems[at], runs, listed: lineAt(set, place), at: row, of: around.length,
    previous: row > 0 ? set.ids[around[row - 1]] : null,
    next: row + 1 < around.length ? set.ids[around[row + 1]] : null,
  };
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
