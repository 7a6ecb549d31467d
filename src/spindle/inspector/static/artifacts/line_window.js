// @ts-check
// A window on any number of lines: only those in sight exist, and the scroll bar covers all of them.
//
// Browsers limit the height of an element. Where the lines would be higher, a pixel of the scroll bar is more than one,
// and wheel and keys move the window by lines, so that none is skipped.

import { h } from "../dom.js";

export const LINE_HEIGHT = 18;
const MAX_HEIGHT = 8_000_000;
const SPARE = 6;

/**
 * @typedef {object} WindowOptions
 * @property {string} label
 * @property {number} count
 * @property {(line: number) => HTMLElement} draw
 * @property {(first: number, last: number) => void} onRange      called with the lines in sight
 * @property {(event: KeyboardEvent) => boolean} [onKey]          returns whether it has used the key
 */

export class LineWindow {
  /** @param {WindowOptions} options */
  constructor(options) {
    this.options = options;
    /** The line at the upper edge, with a fraction. */
    this.top = 0;
    this.isOwnScroll = false;
    this.isScheduled = false;
    this.space = h("div", { class: "lines-space" });
    this.layer = h("div", { class: "lines-layer" });
    this.element = h(
      "div",
      {
        class: "lines",
        role: "region",
        tabindex: 0,
        "aria-label": options.label,
        onscroll: () => this.onScroll(),
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.onKey(event),
      },
      this.layer,
      this.space,
    );
    this.element.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    this.observer = new ResizeObserver(() => this.schedule());
    this.observer.observe(this.element);
    this.space.style.height = `${Math.min(options.count * LINE_HEIGHT, MAX_HEIGHT)}px`;
  }

  close() {
    this.observer.disconnect();
  }

  get visible() {
    return Math.max(1, this.element.clientHeight / LINE_HEIGHT);
  }

  get isScaled() {
    return this.options.count * LINE_HEIGHT > MAX_HEIGHT;
  }

  /** The largest value of `top`. */
  get end() {
    return Math.max(0, this.options.count - Math.floor(this.visible));
  }

  /**
   * Show a line: at a third of the height, or at the upper edge.
   * @param {number} line
   * @param {boolean} [isCentred]
   */
  show(line, isCentred = true) {
    this.move(isCentred ? line - Math.floor(this.visible / 3) : line);
  }

  /** @param {number} top */
  move(top) {
    this.top = Math.max(0, Math.min(top, this.end));
    const range = this.space.offsetHeight - this.element.clientHeight;
    const wanted = this.isScaled ? (this.end === 0 ? 0 : (this.top / this.end) * range) : this.top * LINE_HEIGHT;
    if (Math.abs(wanted - this.element.scrollTop) >= 1) {
      this.isOwnScroll = true;
      this.element.scrollTop = wanted;
    }
    this.schedule();
  }

  onScroll() {
    if (this.isOwnScroll) {
      this.isOwnScroll = false;
    } else {
      const range = this.space.offsetHeight - this.element.clientHeight;
      const { scrollTop } = this.element;
      this.top = this.isScaled ? (range <= 0 ? 0 : (scrollTop / range) * this.end) : scrollTop / LINE_HEIGHT;
    }
    this.schedule();
  }

  /** @param {WheelEvent} event */
  onWheel(event) {
    if (!this.isScaled || event.ctrlKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
    event.preventDefault();
    const pixels = event.deltaMode === 1 ? event.deltaY * LINE_HEIGHT : event.deltaY;
    this.move(this.top + pixels / LINE_HEIGHT);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.options.onKey?.(event)) {
      event.preventDefault();
      return;
    }
    const page = Math.max(1, Math.floor(this.visible) - 2);
    /** @type {Record<string, number>} */
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, " ": event.shiftKey ? -page : page };
    const step = steps[event.key];
    if (step !== undefined) this.move(Math.round(this.top) + step);
    else if (event.key === "g" || event.key === "Home") this.move(0);
    else if (event.key === "G" || event.key === "End") this.move(this.end);
    else return;
    event.preventDefault();
  }

  schedule() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      this.render();
    });
  }

  render() {
    const first = Math.max(0, Math.floor(this.top) - SPARE);
    const last = Math.min(this.options.count, Math.ceil(this.top + this.visible) + SPARE);
    const rows = [];
    for (let line = first; line < last; line += 1) {
      const row = this.options.draw(line);
      row.style.transform = `translateY(${Math.round((line - this.top) * LINE_HEIGHT)}px)`;
      rows.push(row);
    }
    this.layer.replaceChildren(...rows);
    this.options.onRange(first, last);
  }
}
