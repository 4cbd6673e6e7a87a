// The table of runs: a line a run, columns that are chosen, sorted by any of them.
"use strict";

/**
 * @typedef {[value: any, lo?: number, hi?: number, difference?: number, differenceLo?: number,
 *   differenceHi?: number, detail?: string]} Cell
 * @typedef {{key: string, title: string, group: string, kind: string, word: string,
 *   values: (Cell | null)[]}} Column
 * @typedef {{key: string, label: string, path: string, runs: string[], is_base: boolean}} Line
 * @typedef {{lines: Line[], columns: Column[], shown: string[], about: Record<string, string>,
 *   against: string}} RunTable
 */

/** What is looked at of the table; the address holds it. */
const seen = {
  sort: "", down: true, find: "", intervals: false,
  /** @type {string[] | null} keys of the columns; null: those that the page chose */
  columns: null,
};

const MINUS = "\u2212";

/** @param {number} value in units of the column @param {string} kind */
function shownAs(value, kind) {
  if (kind === "percent") return (100 * value).toFixed(1);
  if (kind === "number") return value.toFixed(1);
  if (kind === "duration") return durationOf(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(1);
}

/** @param {number} seconds */
function durationOf(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds) % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** @param {number} value @param {string} kind */
function signed(value, kind) {
  const text = shownAs(Math.abs(value), kind);
  return (Number.parseFloat(text) === 0 ? "+" : value < 0 ? MINUS : "+") + text;
}

/** Columns that are shown, in the table's order. */
function chosenColumns() {
  const keys = seen.columns || index.table.shown;
  return index.table.columns.filter((column) => keys.includes(column.key));
}

/**
 * Whether a line's group is shown in its place, or the line is a group whose seeds are.
 * @param {string} key
 */
function hiddenBehindGroup(key) {
  return index.groups.some((group) => (isFolded() ? group.runs.includes(key) : group.key === key));
}

/** Lines that are shown, sorted: those of switched-on runs that have every word looked for. */
function chosenLines() {
  const { lines, columns } = index.table, words = wordsIn(seen.find);
  const found = lines.map((line, at) => ({ line, at })).filter(({ line, at }) =>
    !hiddenBehindGroup(line.key) && line.runs.some((key) => !hiddenRuns.has(key)) &&
    words.every((word) => textOf(line, at).includes(word)));
  const by = columns.find((column) => column.key === seen.sort);
  if (!by && seen.sort !== "label") return found;
  const sign = seen.down ? -1 : 1, order = new Intl.Collator("en", { numeric: true }).compare;
  /** @param {{line: Line, at: number}} one */
  const value = ({ line, at }) => (by ? (by.values[at] || [null])[0] : line.label);
  return found.sort((a, b) => {
    const x = value(a), y = value(b);
    if (x === null || y === null) return Number(x === null) - Number(y === null); // unknown: last
    return sign * (typeof x === "number" && typeof y === "number" ? x - y : order(String(x), String(y)));
  });
}

/** @param {string} text */
function wordsIn(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

/**
 * What a line can be found by: its name, where it is, and each setting as `key=value`.
 * @param {Line} line
 * @param {number} at
 */
function textOf(line, at) {
  const settings = index.table.columns.filter((column) => !column.word).map((column) =>
    `${column.title}=${(column.values[at] || [""])[0]}`);
  return [line.label, line.path, ...settings].join("\n").toLowerCase();
}

/**
 * @param {Column} column
 * @param {Cell | null} cell
 */
function tableCell({ kind }, cell) {
  if (!cell || cell[0] === null) return make("td", {}, "–");
  const [value, lo, hi, apart, apartLo, apartHi, detail] = cell;
  if (kind === "text") return make("td", { class: "words" }, String(value));
  const unit = kind === "percent" ? "%" : "";
  const interval = typeof lo === "number" && typeof hi === "number"
    ? `${shownAs(lo, kind)} to ${shownAs(hi, kind)}${unit}` : "";
  const bounds = typeof apartLo === "number" && typeof apartHi === "number"
    ? `${signed(apartLo, kind)} to ${signed(apartHi, kind)}` : "";
  const way = typeof apartLo !== "number" || typeof apartHi !== "number" ? 0 : apartLo > 0 ? 1 : apartHi < 0 ? -1 : 0;
  const said = [interval ? `95%: ${interval}` : "", bounds ? `difference ${bounds}` : "", detail || ""].filter(Boolean).join("; ");
  return make("td", { title: said || null },
    make("b", {}, shownAs(value, kind)),
    typeof apart === "number" ? make("span", { class: `apart ${["down", "", "up"][way + 1]}` }, `${["▼", "", "▲"][way + 1]}${signed(apart, kind)}`) : null,
    said ? make("span", { class: "interval" }, ` (${said})`) : null);
}

/**
 * Rows of the lines; where seeds are apart, under the heading of their method or seed.
 * @param {{line: Line, at: number}[]} lines
 * @param {(one: {line: Line, at: number}) => HTMLElement} row
 * @param {number} width
 */
function headed(lines, row, width) {
  const by = index.table.columns.find((column) => column.key === `run/${seeds}`);
  if (!seeds || !by) return lines.map(row);
  /** @type {Map<string, HTMLElement[]>} */
  const parts = new Map();
  for (const one of lines) {
    const value = (by.values[one.at] || [null])[0];
    const heading = value === null ? "initial policy" : seeds === "seed" ? `seed ${value}` : String(value);
    parts.set(heading, [...(parts.get(heading) || []), row(one)]);
  }
  return [...parts].flatMap(([heading, rows]) => [
    make("tr", { class: "heading" }, make("th", { scope: "rowgroup", colspan: width }, make("span", {}, heading))), ...rows]);
}

/** @param {Line} line */
function lineName(line) {
  return make("th", { scope: "row", class: `of-${line.key}`, title: line.path || null },
    make("span", { class: "run" }, make("span", { class: "swatch" }), line.label));
}

/**
 * @param {string} key
 * @param {string} title
 * @param {string} word
 */
function headCell(key, title, word) {
  const chosen = seen.sort === key;
  const button = make("button", { type: "button", class: "sorter", "data-sort": key }, title,
    make("span", { class: "order", "aria-hidden": "true" }, chosen ? (seen.down ? " ↓" : " ↑") : ""));
  button.addEventListener("click", () => {
    lookAt({ sort: key, down: chosen ? !seen.down : key !== "label" });
    const again = byId("run-table").querySelector(`[data-sort="${CSS.escape(key)}"]`);
    if (again instanceof HTMLElement) again.focus();
  });
  return make("th", { scope: "col", "aria-sort": chosen ? (seen.down ? "descending" : "ascending") : null },
    button, word ? whatIs(word, title) : null);
}

function drawTable() {
  const columns = chosenColumns(), lines = chosenLines(), place = byId("run-rows");
  /** @type {Map<string, Column[]>} */
  const groups = new Map();
  for (const column of columns) groups.set(column.group, [...(groups.get(column.group) || []), column]);
  /** @type {Set<string>} */
  const explained = new Set();
  const heads = columns.map((column) => {
    const word = explained.has(column.word) || column.word === "cost" ? "" : column.word;
    explained.add(column.word);
    return headCell(column.key, column.title, word);
  });
  const first = new Set([...groups.values()].map(([column]) => column.key));
  /** @param {{line: Line, at: number}} one */
  const row = ({ line, at }) => make("tr", { "data-line": line.key }, lineName(line),
    ...columns.map((column) => {
      const cell = tableCell(column, column.values[at]);
      cell.classList.toggle("first", first.has(column.key));
      return cell;
    }));
  const rows = headed(lines, row, columns.length + 1);
  const table = make("table", { class: `numbers runs-table${seen.intervals ? " with-intervals" : ""}`, "aria-label": "Runs" },
    make("thead", {},
      make("tr", {}, make("td", {}), ...[...groups].map(([group, of]) =>
        make("th", { scope: "colgroup", colspan: of.length, class: "group first" }, group,
          index.table.about[group] ? make("small", {}, ` ${index.table.about[group]}`) : null))),
      make("tr", {}, headCell("label", "run", ""), ...heads)),
    make("tbody", {}, ...rows));
  place.replaceChildren(rows.length ? table : make("p", { class: "empty" }, "No run has these words."));
  const of = index.table.lines.filter((line) => !hiddenBehindGroup(line.key)).length;
  byId("run-count").textContent = `${lines.length} of ${of} lines${index.table.against ? `; small numbers are differences from ${index.table.against}` : ""}`;
}

/**
 * Change what is looked at, in the address too.
 * @param {Partial<typeof seen>} change
 */
function lookAt(change) {
  Object.assign(seen, change);
  writeTable();
  drawTable();
}

/** The table's part of an address. */
function writeTable() {
  if (page() !== "overview") return;
  const words = new URLSearchParams();
  if (seen.sort) words.set("sort", seen.sort);
  if (seen.sort && !seen.down) words.set("up", "1");
  if (seen.find) words.set("find", seen.find);
  if (seen.intervals) words.set("intervals", "1");
  if (seen.columns) words.set("columns", seen.columns.join(" "));
  const said = words.toString();
  history.replaceState(null, "", withSwitches(`#/${said ? `?${said}` : ""}`));
}

/** A sentence for each word of the address about the table that names nothing there is. */
function wrongTable() {
  const words = addressWords(), known = index.table.columns.map((column) => column.key);
  const asked = [...(words.get("columns") || "").split(" "), words.get("sort") || ""];
  return asked.filter((key) => key && key !== "label" && !known.includes(key)).map((key) =>
    `The address asks for the column ${key}, which is unknown and ignored.`);
}

/** Look at what the address says; an address that says nothing gets what is looked at. */
function readTable() {
  const words = addressWords();
  if (!["sort", "find", "columns", "intervals"].some((name) => words.has(name))) return writeTable();
  const known = index.table.columns.map((column) => column.key), columns = words.get("columns");
  seen.sort = words.get("sort") || "";
  seen.down = words.get("up") !== "1";
  seen.find = words.get("find") || "";
  seen.intervals = words.get("intervals") === "1";
  seen.columns = columns === null ? null : columns.split(" ").filter((key) => known.includes(key));
  fillTools();
  drawTable();
}

/** Show in the tools above the table what is looked at. */
function fillTools() {
  const keys = seen.columns || index.table.shown;
  for (const field of byId("run-table").querySelectorAll("input")) {
    if (field.name === "column") field.checked = keys.includes(field.value);
    else if (field.name === "intervals") field.checked = seen.intervals;
    else if (field !== document.activeElement) field.value = seen.find;
  }
}

/** A box for each column, under the heading of its group. */
function columnChooser() {
  /** @type {Map<string, HTMLElement>} */
  const groups = new Map();
  for (const column of index.table.columns) {
    const of = groups.get(column.group) || make("fieldset", {}, make("legend", {}, column.group));
    groups.set(column.group, of);
    of.append(make("div", { class: "box" },
      make("label", {}, make("input", { type: "checkbox", name: "column", value: column.key }), column.title),
      column.word ? whatIs(column.word, column.title) : null));
  }
  const reset = make("button", { type: "button" }, "The page's choice");
  reset.addEventListener("click", () => { lookAt({ columns: null }); fillTools(); });
  return make("details", { class: "chooser" }, make("summary", {}, "Columns"),
    make("div", { class: "choices" }, ...groups.values(), reset));
}

function startTable() {
  const place = byId("run-table");
  place.append(
    make("form", { class: "filters", "aria-label": "Table of runs" },
      make("label", { class: "search" }, make("span", {}, "Find runs by name, directory or setting=value"),
        make("input", { type: "search", name: "find", autocomplete: "off" })),
      make("label", { class: "check" }, make("input", { type: "checkbox", name: "intervals" }), "intervals"),
      make("span", { id: "run-count", class: "small", role: "status" })),
    columnChooser(),
    make("div", { id: "run-rows", class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Table of runs" }));
  place.addEventListener("submit", (event) => event.preventDefault());
  place.addEventListener("input", ({ target }) => {
    if (!(target instanceof HTMLInputElement)) return;
    if (target.name === "find") lookAt({ find: target.value });
    if (target.name === "intervals") lookAt({ intervals: target.checked });
    if (target.name === "column") {
      const boxes = [...place.querySelectorAll("input[name=column]")];
      lookAt({ columns: boxes.flatMap((box) => (box instanceof HTMLInputElement && box.checked ? [box.value] : [])) });
    }
  });
  onRunsChanged.push(drawTable);
  fillTools();
  drawTable();
}
