// An answer token by token, coloured by what the model said of each.
"use strict";

/** @type {Record<string, {title: string, most: number, sign: number}>} */
const COLOURINGS = {
  logprob: { title: "log-prob", most: 4, sign: -1 },
  entropy: { title: "entropy", most: 2, sign: 1 },
  ratio: { title: "log-ratio to the initial policy", most: 2, sign: 0 },
};
let colouring = "logprob";

/**
 * How a token is coloured: more of the colour for more surprise, uncertainty or distance.
 * A token that the policy did not write, but read, has no value and no colour.
 * @param {number|null} value in nats
 * @param {{most: number, sign: number}} by
 */
function tokenColour(value, { most, sign }) {
  if (value === null) return "";
  const amount = Math.min(1, Math.abs(value) / most);
  const colour = sign === 0 && value < 0 ? "var(--bad)" : "var(--accent)";
  // Up to 40%: more would leave less contrast than 4.5 on the dark page.
  return `color-mix(in srgb, ${colour} ${Math.round(40 * amount)}%, transparent)`;
}

/** @param {TokenDetail} detail */
function tokenBlock(detail) {
  const block = make("pre", { class: "tokens", tabindex: "0" });
  detail.pieces.forEach((text, i) => {
    const values = detail.logprob[i] === null ? "read, not written: part of a tool's result"
      : `log-prob ${detail.logprob[i]}, entropy ${detail.entropy[i]}, log-ratio ${detail.ratio[i]} (nats)`;
    const token = make("span", { class: "token", title: values, "data-at": String(i) }, ...visible(text));
    block.append(token);
  });
  block.addEventListener("click", ({ target }) => {
    const token = target instanceof Element ? target.closest(".token") : null;
    if (token) tellToken(token);
  });
  block.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || !block.children.length) return;
    const told = block.querySelector(".told"), at = told ? [...block.children].indexOf(told) + by : 0;
    tellToken(block.children[Math.max(0, Math.min(at, block.children.length - 1))]);
    event.preventDefault();
  });
  tokenDetails.set(block, detail);
  colour(block);
  return block;
}

/**
 * The numbers of a token, for those who cannot point at it.
 * @param {Element} token
 */
function tellToken(token) {
  for (const other of document.querySelectorAll(".token.told")) other.classList.remove("told");
  token.classList.add("told");
  byId("token-values").textContent = `${JSON.stringify(token.textContent)}: ${token.getAttribute("title")}`;
}

/** @type {WeakMap<Element, TokenDetail>} */
const tokenDetails = new WeakMap();

/** @param {Element} block */
function colour(block) {
  const detail = tokenDetails.get(block);
  if (!detail) return;
  const values = detail[/** @type {"logprob"} */ (colouring)];
  block.querySelectorAll(".token").forEach((token, i) => {
    /** @type {HTMLElement} */ (token).style.background = tokenColour(values[i], COLOURINGS[colouring]);
  });
}

/** The choice of what tokens are coloured by. */
function colouringChoice() {
  const select = make("select", { id: "colouring", "aria-label": "Tokens coloured by" });
  for (const [value, { title }] of Object.entries(COLOURINGS)) select.append(make("option", { value }, title));
  /** @type {HTMLSelectElement} */ (select).value = colouring;
  select.addEventListener("change", () => {
    colouring = /** @type {HTMLSelectElement} */ (select).value;
    document.querySelectorAll("pre.tokens").forEach(colour);
  });
  return make("p", { class: "colouring" }, "Tokens coloured by", select,
    make("span", { id: "token-values", role: "status" },
      "point at or tap a token for its numbers, or move with ← and →; answers without colours have no values per token"));
}
