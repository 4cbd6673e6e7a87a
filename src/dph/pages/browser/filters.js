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
 * @param {string} address
 * @returns {Filter}
 */
function filterOf(address) {
  const words = new URLSearchParams(address);
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
