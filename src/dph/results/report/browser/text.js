// Elements and text. What a model wrote is only ever the text of a node.
"use strict";

/**
 * An element with attributes and children; strings become text.
 * @param {string} name
 * @param {Record<string, string | number | boolean | null>} [attributes] false and null leave one out
 * @param {...(Node | string | null)} children
 * @returns {HTMLElement}
 */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== false && value !== null) element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/**
 * @param {string} id
 * @returns {HTMLElement}
 */
function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found;
}

// Control and format characters (Cc, Cf), lone surrogates and line separators, but not \n and \t.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const KEPT = new Set(["\n", "\t"]);
// Emoji that are joined into one picture: the joiners between them are part of it.
const JOINED = /(?<=\p{Extended_Pictographic}[\uFE0F\u{1F3FB}-\u{1F3FF}]?)\u200D(?=\p{Extended_Pictographic})/yu;

/**
 * Whether the joiner at `at` stands between emoji.
 * @param {string} text
 * @param {number} at
 */
function joinsEmoji(text, at) {
  JOINED.lastIndex = at;
  return JOINED.test(text);
}

/**
 * `text` in nodes, with every character that cannot be seen as a mark that can.
 * @param {string} text
 * @returns {(Node | string)[]}
 */
function visible(text) {
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (KEPT.has(match[0]) || (match[0] === "\u200D" && joinsEmoji(text, match.index))) continue;
    if (match.index > end) nodes.push(text.slice(end, match.index));
    const code = (match[0].codePointAt(0) || 0).toString(16).toUpperCase().padStart(4, "0");
    nodes.push(make("span", { class: "mark", title: "a character that cannot be seen" }, `U+${code}`));
    end = match.index + match[0].length;
  }
  if (end < text.length) nodes.push(text.slice(end));
  return nodes;
}

const SQL_WORDS = new Set(
  ("select from where join left right inner outer full cross on using group by order having limit " +
    "offset union all except intersect with as distinct and or not in exists between like is null " +
    "case when then else end desc asc cast count sum avg min max insert update delete values")
    .split(" "),
);
// A name or word, a number, a quoted text; whatever is between them is left as it is.
const SQL_PARTS = /('(?:[^']|'')*'|"(?:[^"]|"")*")|(\b\d+(?:\.\d+)?\b)|([A-Za-z_]\w*)/g;
const LONGEST_COLOURED = 20000;

/**
 * SQL in nodes: words, numbers and texts each with a class. Reads like `visible` otherwise.
 * @param {string} text
 * @returns {(Node | string)[]}
 */
function sqlNodes(text) {
  if (text.length > LONGEST_COLOURED) return visible(text);
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(SQL_PARTS)) {
    const kind = match[1] ? "sql-text" : match[2] ? "sql-number" : SQL_WORDS.has(match[0].toLowerCase()) ? "sql-word" : "";
    if (!kind) continue;
    nodes.push(...visible(text.slice(end, match.index)));
    nodes.push(make("span", { class: kind }, ...visible(match[0])));
    end = match.index + match[0].length;
  }
  nodes.push(...visible(text.slice(end)));
  return nodes;
}

/**
 * Whether a text reads like a statement of SQL.
 * @param {string} text
 */
function looksLikeSql(text) {
  return /\bselect\b[\s\S]+\bfrom\b|\bselect\b\s+\S/i.test(text.slice(0, 4000));
}

const FIRST_SHOWN = 4000;

/**
 * A block with a text of any length: the beginning, and a button for the rest.
 * @param {string} text
 * @param {number} [length] of the whole text, where the page holds only a part of it
 * @returns {HTMLElement}
 */
function textBlock(text, length = text.length) {
  if (!text && !length) return make("p", { class: "note" }, "(empty)");
  const nodes = looksLikeSql(text) ? sqlNodes : looksLikeMaths(text) ? mathsNodes : visible;
  const block = make("pre", { tabindex: text.length > 600 ? "0" : null }, ...nodes(text.slice(0, FIRST_SHOWN)));
  const whole = make("div", { class: "text" }, block);
  if (text.length > FIRST_SHOWN) {
    const more = make("button", { type: "button", class: "more" }, `show all ${text.length.toLocaleString()} characters`);
    more.addEventListener("click", () => {
      block.replaceChildren(...visible(text));
      more.remove();
    });
    whole.append(more);
  }
  if (length > text.length) {
    whole.append(make("p", { class: "note" }, `This page holds ${text.length.toLocaleString()} of ${length.toLocaleString()} characters.`));
  }
  return whole;
}

/**
 * Tell a person who sees or hears the page what just happened.
 * @param {string} message
 */
function say(message) {
  const said = byId("said");
  said.textContent = message;
  said.classList.add("shown");
  window.clearTimeout(Number(said.dataset.timer));
  said.dataset.timer = String(window.setTimeout(() => said.classList.remove("shown"), 2500));
}

/**
 * A "?" next to a word, with its meaning behind it.
 * @param {string} word of `index.words`
 * @param {string} title the word as it is written
 */
function whatIs(word, title) {
  return make("button", { type: "button", class: "what", "data-word": word, "aria-label": `Meaning of ${title}` }, "?");
}

/** Show the meaning of a word under its "?", within the page. */
function startMeanings() {
  const meaning = byId("meaning");
  document.addEventListener("click", ({ target }) => {
    const asked = target instanceof Element ? target.closest(".what") : null;
    if (!(asked instanceof HTMLElement)) return;
    meaning.textContent = index.words[asked.dataset.word || ""] || "";
    meaning.showPopover();
    const at = asked.getBoundingClientRect();
    meaning.style.left = `${Math.max(8, Math.min(at.left, window.innerWidth - meaning.offsetWidth - 8))}px`;
    meaning.style.top = `${Math.min(at.bottom + 4, window.innerHeight - meaning.offsetHeight - 8)}px`;
  });
}
