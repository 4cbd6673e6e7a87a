// What the page shows is asked of the server that it came from, a screen at a time.
"use strict";

const PAGE = 100; // lines of the list that are asked for together

/**
 * @param {string} what of the server's addresses
 * @param {Record<string, string | number>} [words]
 * @returns {Promise<any>} null: the server has no such thing
 */
async function ask(what, words = {}) {
  const query = new URLSearchParams(Object.entries(words).map(([key, value]) => [key, String(value)])).toString();
  const answer = await fetch(`api/${what}${query ? `?${query}` : ""}`);
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Error(`${what}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

/** @returns {Promise<Index>} */
function readIndex() {
  return ask("index");
}

/** @returns {Promise<void>} */
function readVega() {
  return new Promise((resolve, reject) => {
    const script = make("script", { src: "vega.js" });
    script.addEventListener("load", () => resolve());
    script.addEventListener("error", () => reject(new Error("the script of the charts did not load")));
    document.body.append(script);
  });
}

/**
 * A filter as the server is asked for it.
 * @param {SetIndex} set
 * @param {Filter} filter
 * @param {string[]} shown
 * @returns {Record<string, string>}
 */
function asWords(set, filter, shown) {
  return { ...Object.fromEntries(new URLSearchParams(filterAddress(filter))), set: set.set, shown: shown.join(" ") };
}

/**
 * The problems that pass a filter; the first page at once, others when they are looked at.
 * @param {SetIndex} set
 * @param {Filter} filter
 * @param {string[]} shown keys of the runs that are switched on
 * @returns {Promise<Listing>}
 */
async function readListing(set, filter, shown) {
  const words = asWords(set, filter, shown);
  /** @type {Map<number, Listed[] | null>} null: on its way */
  const pages = new Map();
  /** @param {number} page */
  const read = async (page) => {
    pages.set(page, null);
    const found = await ask("problems", { ...words, first: page * PAGE, count: PAGE });
    pages.set(page, found.problems);
    return found.count;
  };
  const first = Math.max(0, list.current), count = await read(Math.floor(first / PAGE));
  return {
    count,
    row: (row) => {
      const page = Math.floor(row / PAGE), lines = pages.get(page);
      if (lines === undefined) read(page).then(() => list.draw());
      return lines ? lines[row - page * PAGE] || null : null;
    },
  };
}

/**
 * A problem with the answers of every run, and where it stands in a list; null: there is none.
 * @param {SetIndex} set
 * @param {string} id
 * @param {Filter} filter
 * @param {string[]} shown
 * @returns {Promise<Opened | null>}
 */
async function readProblem(set, id, filter, shown) {
  const found = await ask("problem", { ...asWords(set, filter, shown), id });
  return found && { ...found, set };
}

const readRest = {
  /**
   * Further answers of a run to a problem.
   * @param {string} set
   * @param {string} id
   * @param {string} run
   * @param {number} first
   * @returns {Promise<Answer[]>}
   */
  answers: (set, id, run, first) => ask("answers", { set, id, run, first }),
  /**
   * The whole text of an answer.
   * @param {string} set
   * @param {string} id
   * @param {string} run
   * @param {number} sample
   * @returns {Promise<string>}
   */
  text: (set, id, run, sample) => ask("text", { set, id, run, sample }),
};
