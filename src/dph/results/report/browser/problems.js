// The page with all problems: filters above, the list below.
"use strict";

/** @type {Filter} */
let filter = { ...NO_FILTER };
/** @type {LongList} */
let list;

/** The set that is listed. */
function currentSet() {
  return setNamed(filter.set) || index.sets[0];
}

/**
 * The address of a problem's page, with the filter of the list that it is in.
 * @param {string} set
 * @param {string} id
 */
function problemAddress(set, id) {
  const words = filterAddress({ ...filter, set: "" });
  return `#/problem/${encodeURIComponent(set)}/${encodeURIComponent(id)}${words ? `?${words}` : ""}`;
}

/**
 * @param {string} name of the filter
 * @param {string} label
 * @param {[string, string][]} options values and what they are called
 */
function choice(name, label, options) {
  const select = make("select", { name, id: `by-${name}` });
  for (const [value, text] of options) select.append(make("option", { value }, ...visible(text)));
  return make("label", {}, make("span", {}, label), select);
}

/**
 * @param {string} name
 * @param {string} label
 */
function numberField(name, label) {
  return make("label", { class: "short" }, make("span", {}, label),
    make("input", { type: "number", name, id: `by-${name}`, min: "0", inputmode: "numeric" }));
}

function filterForm() {
  /** @param {string[]} values @returns {[string, string][]} */
  const any = (values) => [["", "any"], ...values.map((value) => /** @type {[string, string]} */ ([value, value.replaceAll("_", " ").toLowerCase()]))];
  const styles = index.styles.map((style) => /** @type {[string, string]} */ ([style, style]));
  return make("form", { id: "filters", class: "filters", role: "search", "aria-label": "Problems" },
    make("label", { class: "search" }, make("span", {}, "Search"),
      make("input", { type: "search", name: "q", id: "by-q", placeholder: "id, prompt, gold; \"in quotes\"", autocomplete: "off", spellcheck: "false" })),
    make("label", { class: "check" }, make("input", { type: "checkbox", name: "answers", id: "by-answers" }), make("span", {}, "also in answers")),
    choice("set", "Set", index.sets.map((set) => [set.set, set.set.replaceAll("_", " ")])),
    choice("run", "Run", [["", "any"], ...index.runs.map((run) => /** @type {[string, string]} */ ([run.key, run.label]))]),
    choice("change", "Against its base", any(CHANGES)),
    choice("outcome", "Has an answer", any(index.seen)),
    index.styles.length ? choice("style", "Has a style", [["", "any"], ...styles]) : null,
    numberField("from", "Correct from"),
    numberField("to", "to"),
    make("button", { type: "reset" }, "Clear"));
}

/**
 * A title of the list, which sorts by its column.
 * @param {string} sort
 * @param {string} label
 * @param {string} [run]
 */
function sorter(sort, label, run = "") {
  const chosen = filter.sort === sort;
  const button = make("button", { type: "button", title: "sort" },
    run ? make("span", { class: "swatch" }) : null, make("span", { class: "word" }, label),
    make("span", { class: "order", "aria-hidden": "true" }, chosen ? (filter.down ? "↓" : "↑") : ""));
  button.addEventListener("click", () => {
    const numbers = sort !== "id" && sort !== "place";
    go({ sort, down: chosen ? !filter.down : numbers });
  });
  return make("div", {
    role: "columnheader", class: run ? `cell of-${run}` : sort === "spread" ? "cell last" : "cell name",
    "aria-sort": chosen ? (filter.down ? "descending" : "ascending") : "none",
  }, button);
}

/** @param {RunScore} score */
function shareBar(score) {
  const bar = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  bar.setAttribute("class", "share");
  bar.setAttribute("viewBox", "0 0 100 8");
  bar.setAttribute("preserveAspectRatio", "none");
  bar.setAttribute("aria-hidden", "true");
  for (const [kind, width] of [["all", 100], ["part", 100 * Math.max(0, share(score))]]) {
    const part = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    part.setAttribute("class", String(kind));
    part.setAttribute("width", String(width));
    part.setAttribute("height", "8");
    bar.append(part);
  }
  return bar;
}

/**
 * A problem's line: its id, the end of its prompt, and how each run fared.
 * @param {Listed | null} problem
 * @param {number} row
 */
function problemRow(problem, row) {
  const set = currentSet();
  if (!problem) return make("div", { role: "row", class: "row waiting", "aria-busy": "true" }, "…");
  const link = make("a", { class: "id", href: problemAddress(set.set, problem.id) }, ...visible(problem.id));
  link.addEventListener("click", () => { list.current = row; });
  const shown = shownRuns().filter((run) => problem.runs[run.key]), keys = shown.map((run) => run.key);
  const cells = columnsOf(shown).map((run) => run.key).map((key) => {
    const of = problem.runs[key];
    return make("div", { role: "cell", class: `cell of-${key}` }, shareBar(of),
      make("span", { class: "count" }, of.samples ? `${of.correct}/${of.samples}` : "–"),
      of.change === "lost" || of.change === "gained" ? make("span", { class: `change ${of.change}` }, of.change) : null);
  });
  const apart = spread(problem, keys);
  return make("div", { role: "row", class: "row" },
    make("div", { role: "cell", class: "cell name" }, link, make("span", { class: "excerpt" }, make("bdi", { dir: "ltr" }, ...visible(problem.excerpt)))),
    make("div", { class: "cells", role: "presentation" }, ...cells),
    make("div", { role: "cell", class: "cell last" }, apart < 0 ? "–" : `${Math.round(100 * apart)}`));
}

/**
 * Change the filter, in the address too.
 * @param {Partial<Filter>} change
 */
function go(change) {
  filter = { ...filter, ...change };
  const address = filterAddress(filter);
  history.replaceState(null, "", withSwitches(`#/problems${address ? `?${address}` : ""}`));
  showProblems();
}

const narrow = window.matchMedia("(max-width: 52rem)");
const ABREAST = 3; // runs in a line of a row where it is narrow, as in style.css

/**
 * What stands in the place of a list without problems, and what of the address is not known.
 * @param {number} count
 * @param {string[]} wrong
 */
function showEmpty(count, wrong) {
  const place = byId("none");
  const clear = make("button", { type: "button" }, "Clear the filters");
  clear.addEventListener("click", () => go({ ...NO_FILTER, set: currentSet().set }));
  place.replaceChildren(
    ...wrong.map((what) => make("p", { class: "empty wrong" }, ...visible(what))),
    count ? "" : make("p", { class: "empty" }, "No problem matches these filters. ", clear));
}

let asked = 0; // listings so far: of several under way only the last is shown

/** Bring the list and the form in line with the filter. */
async function showProblems() {
  const set = currentSet(), mine = ++asked;
  fillForm();
  const wrong = wrongWords(location.hash.split("?")[1] || "");
  const listing = await readListing(set, filter, shownRuns().map((run) => run.key));
  if (mine !== asked) return;
  const all = shownRuns().filter((run) => set.runs[run.key]), runs = columnsOf(all);
  byId("pages").replaceChildren(columnPages(all, showProblems) || "");
  byId("titles").replaceChildren(
    sorter("id", "Problem"),
    make("div", { class: "cells", role: "presentation" }, ...runs.map((run) => sorter(run.key, run.label, run.key))),
    sorter("spread", "Spread"));
  const table = byId("list");
  table.dataset.runs = String(runs.length);
  table.classList.toggle("many", runs.length > 4);
  table.style.setProperty("--columns", String(runs.length));
  table.style.setProperty("--lines", String(narrow.matches ? Math.ceil(runs.length / ABREAST) : 1));
  table.setAttribute("aria-rowcount", String(listing.count + 1));
  list.show(listing);
  showEmpty(listing.count, wrong);
  byId("counted").textContent = `${listing.count.toLocaleString()} of ${set.size.toLocaleString()} problems`;
}

function fillForm() {
  for (const field of byId("filters").querySelectorAll("input, select")) {
    if (!(field instanceof HTMLInputElement || field instanceof HTMLSelectElement)) continue;
    const value = filter[/** @type {keyof Filter} */ (field.name)];
    if (field instanceof HTMLInputElement && field.type === "checkbox") field.checked = Boolean(value);
    else if (field !== document.activeElement || !field.matches("input")) {
      field.value = field.name === "set" ? currentSet().set : value === null ? "" : String(value);
    }
  }
}

function startProblems() {
  const form = filterForm();
  const table = make("div", { id: "list", class: "list", role: "table", "aria-label": "Problems" });
  const scroller = make("div", { class: "scroller", tabindex: "0", role: "rowgroup" });
  table.append(make("div", { id: "titles", class: "row titles", role: "row" }), scroller);
  byId("problems").append(form,
    make("p", { class: "note counts" }, make("span", { id: "counted", "aria-live": "polite" }), make("span", { id: "read" }), make("span", { id: "pages" })), make("div", { id: "none", role: "status" }), table);
  list = new LongList(scroller, problemRow);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => {
    const field = event.target;
    if (!(field instanceof HTMLInputElement || field instanceof HTMLSelectElement)) return;
    if (field.type === "checkbox") go({ answers: /** @type {HTMLInputElement} */ (field).checked });
    else if (field.type === "number") go({ [field.name]: field.value === "" ? null : Number(field.value) });
    else go({ [field.name]: field.value });
  });
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    go({ ...NO_FILTER, set: filter.set });
  });
  onRunsChanged.push(() => { if (!byId("problems").hidden) showProblems(); });
  narrow.addEventListener("change", () => { if (!byId("problems").hidden) showProblems(); });
  onRead.push((done, all) => {
    byId("read").textContent = done < all ? ` – reading texts, ${done} of ${all} parts` : "";
    if (done === all && filter.q && !byId("problems").hidden) showProblems();
  });
}
