// What a reader adds: notes and tags of problems, kept by this browser; and how two answers differ.
"use strict";

/** @typedef {{note: string, tags: string[]}} Note */

const NOTES = `dph notes of ${document.title}`;
const MOST_WORDS = 1500; // of an answer that is compared word by word

/** @returns {Record<string, Note>} by set and problem; none where the browser keeps nothing */
function readNotes() {
  try {
    return JSON.parse(localStorage.getItem(NOTES) || "{}");
  } catch {
    return {};
  }
}

/**
 * Keep a note; an empty one is forgotten.
 * @param {string} key
 * @param {Note} note
 */
function keepNote(key, note) {
  const notes = readNotes();
  if (note.note || note.tags.length) notes[key] = note;
  else delete notes[key];
  try {
    localStorage.setItem(NOTES, JSON.stringify(notes));
  } catch {
    say("this browser keeps nothing for this page");
  }
}

/** All notes as a JSON file. */
function exportNotes() {
  const notes = Object.entries(readNotes()).map(([key, note]) => {
    const [set, problem_id] = JSON.parse(key);
    return { set, problem_id, ...note };
  });
  const text = JSON.stringify(notes, null, 2);
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: "notes.json" });
  link.click();
  say(`${notes.length} ${notes.length === 1 ? "note" : "notes"} exported`);
}

/**
 * Fields for a reader's note and tags of a problem.
 * @param {string} set
 * @param {string} id
 */
function noteForm(set, id) {
  const key = JSON.stringify([set, id]), kept = readNotes()[key] || { note: "", tags: [] };
  const note = make("textarea", { rows: "2", "aria-label": "Note" }), tags = make("input", { type: "text", "aria-label": "Tags", placeholder: "tags, with spaces between them" });
  if (note instanceof HTMLTextAreaElement) note.value = kept.note;
  if (tags instanceof HTMLInputElement) tags.value = kept.tags.join(" ");
  const keep = () => {
    if (note instanceof HTMLTextAreaElement && tags instanceof HTMLInputElement) {
      keepNote(key, { note: note.value.trim(), tags: tags.value.split(/\s+/).filter(Boolean) });
    }
  };
  note.addEventListener("input", keep);
  tags.addEventListener("input", keep);
  const button = make("button", { type: "button" }, "Export all notes");
  button.addEventListener("click", exportNotes);
  return make("details", { class: "notes-of", open: Boolean(kept.note || kept.tags.length) },
    make("summary", {}, "Your notes"),
    make("p", { class: "note" }, "Kept by this browser, for this page's title, and sent nowhere."), note, tags, button);
}

/**
 * Words of two texts that only one of them has, in order: a longest common subsequence.
 * @param {string[]} mine
 * @param {string[]} theirs
 * @returns {[sign: string, word: string][]} "=" of both, "+" of mine, "-" of theirs
 */
function wordsApart(mine, theirs) {
  const wide = theirs.length + 1;
  const longest = new Uint16Array((mine.length + 1) * wide);
  for (let i = mine.length - 1; i >= 0; i--) {
    for (let j = theirs.length - 1; j >= 0; j--) {
      longest[i * wide + j] = mine[i] === theirs[j] ? longest[(i + 1) * wide + j + 1] + 1
        : Math.max(longest[(i + 1) * wide + j], longest[i * wide + j + 1]);
    }
  }
  /** @type {[string, string][]} */
  const found = [];
  let i = 0, j = 0;
  while (i < mine.length || j < theirs.length) {
    if (i < mine.length && j < theirs.length && mine[i] === theirs[j]) found.push(["=", mine[i++]]), j++;
    else if (j >= theirs.length || (i < mine.length && longest[(i + 1) * wide + j] >= longest[i * wide + j + 1])) found.push(["+", mine[i++]]);
    else found.push(["-", theirs[j++]]);
  }
  return found;
}

/**
 * How an answer differs from another one, word by word.
 * @param {string} text
 * @param {string} other
 */
function differenceBlock(text, other) {
  const [mine, theirs] = [text, other].map((one) => one.match(/\s+|\w+|[^\s\w]/gu) || []);
  const cut = mine.length > MOST_WORDS || theirs.length > MOST_WORDS;
  const parts = wordsApart(mine.slice(0, MOST_WORDS), theirs.slice(0, MOST_WORDS));
  return make("div", { class: "difference" },
    make("pre", { tabindex: "0" }, ...parts.map(([sign, word]) =>
      make(sign === "+" ? "ins" : sign === "-" ? "del" : "span", {}, ...visible(word)))),
    cut ? make("p", { class: "note" }, `The first ${MOST_WORDS} words of each are compared.`) : null);
}
