// Maths as models write it: formulas of LaTeX set apart, their commands and the boxed answer coloured.
"use strict";

const FORMULA = /\$\$[\s\S]+?\$\$|\$[^$\n]+\$|\\\[[\s\S]+?\\\]|\\\([\s\S]+?\\\)/g;
const COMMAND = /\\[A-Za-z]+/g;
const BOXED = "\\boxed{";

/**
 * Whether a text has a formula or a boxed answer.
 * @param {string} text
 */
function looksLikeMaths(text) {
  const beginning = text.slice(0, FIRST_SHOWN);
  return beginning.includes(BOXED) || beginning.search(FORMULA) >= 0;
}

/**
 * Maths in nodes; reads like `visible` otherwise, letter by letter.
 * @param {string} text
 * @returns {(Node | string)[]}
 */
function mathsNodes(text) {
  return around(text, FORMULA, boxedNodes, (formula) => make("span", { class: "formula" }, ...boxedNodes(formula)));
}

/**
 * @param {string} text
 * @returns {(Node | string)[]}
 */
function boxedNodes(text) {
  const start = text.indexOf(BOXED);
  if (start < 0) return commandNodes(text);
  const end = closingBrace(text, start + BOXED.length);
  return [
    ...commandNodes(text.slice(0, start)),
    make("mark", { class: "boxed" }, ...visible(text.slice(start, end))),
    ...boxedNodes(text.slice(end)),
  ];
}

/** @param {string} text */
function commandNodes(text) {
  return around(text, COMMAND, visible, (command) => make("span", { class: "command" }, command));
}

/**
 * The end of what a brace before `at` opened; of the text where nothing closes it.
 * @param {string} text
 * @param {number} at
 */
function closingBrace(text, at) {
  for (let open = 1; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === "{") open++;
    else if (text[at] === "}" && --open === 0) return at + 1;
  }
  return text.length;
}

/**
 * A text in nodes: matches in one way, what lies between them in another.
 * @param {string} text
 * @param {RegExp} pattern
 * @param {(between: string) => (Node | string)[]} between
 * @param {(match: string) => Node} matched
 */
function around(text, pattern, between, matched) {
  /** @type {(Node | string)[]} */
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    nodes.push(...between(text.slice(end, match.index)), matched(match[0]));
    end = match.index + match[0].length;
  }
  nodes.push(...between(text.slice(end)));
  return nodes;
}
