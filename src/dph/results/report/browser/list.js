// A list of any length: only the rows in view are elements.
"use strict";

const BEYOND = 8; // rows above and below those in view

class LongList {
  /**
   * @param {HTMLElement} scroller
   * @param {(problem: Listed | null, row: number) => HTMLElement} makeRow null: it is still to come
   */
  constructor(scroller, makeRow) {
    this.scroller = scroller;
    this.makeRow = makeRow;
    /** @type {Listing} */
    this.listing = { count: 0, row: () => null };
    this.current = -1;
    this.rows = make("div", { role: "presentation", class: "rows" });
    scroller.append(this.rows);
    scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(scroller);
  }

  /** The height of a row, which the style sheet decides. */
  get height() {
    const style = getComputedStyle(this.scroller);
    const lines = Number.parseFloat(style.getPropertyValue("--lines")) || 1;
    return (Number.parseFloat(style.getPropertyValue("--row")) || 44) + 26 * (lines - 1);
  }

  /** @param {Listing} listing */
  show(listing) {
    this.listing = listing;
    this.current = Math.min(this.current, listing.count - 1);
    this.rows.style.height = `${listing.count * this.height}px`;
    this.draw();
  }

  draw() {
    const height = this.height;
    const gutter = this.scroller.offsetWidth - this.scroller.clientWidth;
    this.scroller.parentElement?.style.setProperty("--gutter", `${gutter}px`);
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / height) - BEYOND);
    const last = Math.min(this.listing.count, first + Math.ceil(this.scroller.clientHeight / height) + 2 * BEYOND);
    const focused = this.rows.contains(document.activeElement);
    const rows = Array.from({ length: Math.max(0, last - first) }, (_, i) => {
      const row = this.makeRow(this.listing.row(first + i), first + i);
      row.setAttribute("aria-rowindex", String(first + i + 2));
      row.style.top = `${(first + i) * height}px`;
      row.classList.toggle("current", first + i === this.current);
      return row;
    });
    this.rows.replaceChildren(...rows);
    if (focused) this.focus();
  }

  /**
   * Make a row the current one, and bring it into view.
   * @param {number} row
   */
  move(row) {
    if (!this.listing.count) return;
    this.current = Math.max(0, Math.min(row, this.listing.count - 1));
    const top = this.current * this.height, bottom = top + this.height;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (bottom > this.scroller.scrollTop + this.scroller.clientHeight) {
      this.scroller.scrollTop = bottom - this.scroller.clientHeight;
    }
    this.draw();
    this.focus();
  }

  focus() {
    const link = this.rows.querySelector(".current a");
    if (link instanceof HTMLElement) link.focus({ preventScroll: true });
  }
}
