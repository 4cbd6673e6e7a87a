// Which problems of the file are listed, and in which order. No elements here: values in, values out.
"use strict";

/**
 * @typedef {{samples: number[], correct: number[], greedy: number[], outcomes: number[][],
 *   styles: number[][], change: string[]}} RunIndex
 * @typedef {SetIndex & {ids: string[], excerpts: string[], runs: Record<string, RunIndex>,
 *   pieces: [string, number][]}} FileSet
 */

/**
 * The line of a problem.
 * @param {FileSet} set
 * @param {number} place
 * @returns {Listed}
 */
function lineAt(set, place) {
  const runs = Object.entries(set.runs).map(([key, of]) =>
    [key, { samples: of.samples[place], correct: of.correct[place], greedy: of.greedy[place], change: of.change[place] }]);
  return { id: set.ids[place], excerpt: set.excerpts[place], runs: Object.fromEntries(runs) };
}

/**
 * The problems of `set` that pass, in order.
 * @param {FileSet} set
 * @param {Filter} filter
 * @param {string[]} shown keys of the runs that are switched on
 * @param {(place: number) => boolean} found by the search
 * @returns {number[]} their places
 */
function placesListed(set, filter, shown, found) {
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
 * @param {FileSet} set
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
  const lines = new Map(places.map((place) => [place, lineAt(set, place)]));
  const values = new Map([...lines].map(([place, line]) =>
    [place, run ? share(line.runs[filter.sort]) : spread(line, keys)]));
  const sign = filter.down ? -1 : 1;
  return places.sort((a, b) => sign * ((values.get(a) || 0) - (values.get(b) || 0)) || a - b);
}
