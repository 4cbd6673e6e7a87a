// Which problems are listed, and in which order. No elements here: values in, values out.
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

/**
 * The share of a run's samples that are correct; -1 where there are none.
 * @param {RunIndex} run
 * @param {number} place
 */
function share(run, place) {
  return run.samples[place] ? run.correct[place] / run.samples[place] : -1;
}

/**
 * The largest difference between the runs' shares of correct samples.
 * @param {SetIndex} set
 * @param {string[]} keys
 * @param {number} place
 */
function spread(set, keys, place) {
  const shares = keys.map((key) => share(set.runs[key], place)).filter((value) => value >= 0);
  return shares.length ? Math.max(...shares) - Math.min(...shares) : -1;
}

/**
 * The problems of `set` that pass, in order.
 * @param {SetIndex} set
 * @param {Filter} filter
 * @param {string[]} shown keys of the runs that are switched on
 * @param {(place: number) => boolean} found by the search
 * @returns {number[]} their places
 */
function listed(set, filter, shown, found) {
  const keys = shown.filter((key) => set.runs[key]);
  const asked = filter.run ? keys.filter((key) => key === filter.run) : keys;
  const outcome = index.outcomes.indexOf(filter.outcome), style = index.styles.indexOf(filter.style);
  const ofRuns = filter.change || filter.outcome || filter.style || filter.from !== null || filter.to !== null;
  /** @param {RunIndex} run @param {number} place */
  const passes = (run, place) =>
    (!filter.change || run.change[place] === filter.change) &&
    (!filter.outcome || run.outcomes[place].includes(outcome)) &&
    (!filter.style || run.styles[place].includes(style)) &&
    (filter.from === null || run.correct[place] >= filter.from) &&
    (filter.to === null || run.correct[place] <= filter.to);
  const places = [];
  for (let place = 0; place < set.ids.length; place++) {
    if (ofRuns && !asked.some((key) => passes(set.runs[key], place))) continue;
    if (found(place)) places.push(place);
  }
  return sorted(places, set, filter, keys);
}

/**
 * @param {number[]} places
 * @param {SetIndex} set
 * @param {Filter} filter
 * @param {string[]} keys
 */
function sorted(places, set, filter, keys) {
  if (filter.sort === "place") return filter.down ? places.reverse() : places;
  if (filter.sort === "id") {
    const order = new Intl.Collator("en", { numeric: true }).compare;
    places.sort((a, b) => order(set.ids[a], set.ids[b]));
    return filter.down ? places.reverse() : places;
  }
  const run = set.runs[filter.sort];
  const values = set.ids.map((_, place) => (run ? share(run, place) : spread(set, keys, place)));
  const sign = filter.down ? -1 : 1;
  return places.sort((a, b) => sign * (values[a] - values[b]) || a - b);
}
