// What problems are filtered by, and its place in the address.
"use strict";

/**
 * @typedef {{set: string, q: string, answers: boolean, run: string, change: string, outcome: string,
 *   style: string, from: number | null, to: number | null, sort: string, down: boolean}} Filter
 */

/** @type {Readonly<Filter>} */
const NO_FILTER = Object.freeze({
  set: "", q: "", answers: false, run: "", change: "", outcome: "", style: "",
  from: null, to: null, sort: "place", down: false,
});

const CHANGES = ["lost", "gained", "kept", "undecided", "unsolved"];

/**
 * A filter as the part of an address after `#/problems?`.
 * @param {Filter} filter
 */
function filterAddress(filter) {
  const words = new URLSearchParams();
  for (const key of /** @type {(keyof Filter)[]} */ (Object.keys(NO_FILTER))) {
    const value = filter[key];
    if (value !== NO_FILTER[key] && value !== null) words.set(key, value === true ? "1" : String(value));
  }
  return words.toString();
}

/**
 * What each word of a filter can be, by its name in an address.
 * @returns {Record<string, string[]>}
 */
function knownWords() {
  const keys = index.runs.map((run) => run.key);
  return {
    set: index.sets.map((set) => set.set), run: keys, change: CHANGES, outcome: index.outcomes,
    style: index.styles, sort: ["place", "id", "spread", ...keys],
  };
}

/**
 * A sentence for each word of an address that names nothing there is.
 * @param {string} address
 * @returns {string[]}
 */
function wrongWords(address) {
  const words = new URLSearchParams(address);
  return Object.entries(knownWords()).flatMap(([name, known]) => {
    const value = words.get(name);
    return !value || known.includes(value) ? []
      : [`The address asks for ${name}=${value}, which is unknown and ignored; ${name} is one of ${known.join(", ") || "none"}.`];
  });
}

/**
 * @param {string} address
 * @returns {Filter} without words that name nothing
 */
function filterOf(address) {
  const words = new URLSearchParams(address), known = knownWords();
  for (const [name, values] of Object.entries(known)) if (!values.includes(words.get(name) || "")) words.delete(name);
  /** @param {string} key */
  const number = (key) => {
    const value = Number.parseInt(words.get(key) || "", 10);
    return Number.isNaN(value) ? null : value;
  };
  return {
    set: words.get("set") || "",
    q: words.get("q") || "",
    answers: words.get("answers") === "1",
    run: words.get("run") || "",
    change: words.get("change") || "",
    outcome: words.get("outcome") || "",
    style: words.get("style") || "",
    from: number("from"),
    to: number("to"),
    sort: words.get("sort") || "place",
    down: words.get("down") === "1",
  };
}
