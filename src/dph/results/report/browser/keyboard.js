// Keys, as lists have them elsewhere: j and k, / to search, ? for help.
"use strict";

/** @type {Record<string, () => void>} */
const KEYS = {
  "/": () => {
    location.hash = "#/problems";
    window.setTimeout(() => byId("by-q").focus(), 0);
  },
  j: () => step(1),
  k: () => step(-1),
  u: goBack,
  Escape: goBack,
  c: () => { if (page() === "problem") copyProblem(); },
  g: () => {
    const links = [...document.querySelectorAll("nav a")];
    const at = links.findIndex((link) => link.getAttribute("aria-current") === "page");
    const next = links[(at + 1) % links.length];
    if (next instanceof HTMLElement) next.click();
  },
  "?": () => /** @type {HTMLDialogElement} */ (byId("help")).showModal(),
};

/** @param {number} by */
function step(by) {
  if (page() === "problem") {
    const link = document.getElementById(by > 0 ? "next" : "previous");
    if (link) link.click();
  } else if (page() === "problems") list.move(list.current + by);
}

function goBack() {
  const back = document.getElementById("back");
  if (page() === "problem" && back) back.click();
}

function startKeyboard() {
  byId("keys").addEventListener("click", KEYS["?"]);
  document.addEventListener("keydown", (event) => {
    const at = event.target;
    const typing = at instanceof HTMLElement && at.matches("input:not([type=checkbox]), select, textarea");
    if (typing && event.key === "Escape") at.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open], :popover-open")) return;
    const digit = "123456789".indexOf((event.shiftKey ? event.code.replace("Digit", "") : event.key) || "-");
    const act = KEYS[event.key] || (digit >= 0 ? () => toggleRun(digit, event.shiftKey) : null);
    if (!act) return;
    event.preventDefault();
    act();
  });
}
