// @ts-check
// A list that only draws the rows in sight: any number of items, rows of one height.

import { h, replace } from "./dom.js";

/**
 * @template Item
 * @typedef {object} ListOptions
 * @property {string} label                              its accessible name
 * @property {number} rowHeight                          in pixels, for every row
 * @property {number} [phoneRowHeight]                   on a phone, where a row may have two lines
 * @property {(item: Item, index: number) => HTMLElement} draw
 * @property {(item: Item) => string} getKey             drawn rows with the same key and version are kept
 * @property {(item: Item) => unknown} [getVersion]      changes when a row must be drawn again
 * @property {() => void} [onEnd]                        called when the end comes into sight, to load more
 * @property {(item: Item) => void} [onOpen]             called by a click or Enter
 * @property {string} [empty]
 */

const SPARE = 8;
const PHONE = "(max-width: 700px)";

/** @template Item */
export class VirtualList {
  /** @param {ListOptions<Item>} options */
  constructor(options) {
    this.options = options;
    /** @type {Item[]} */
    this.items = [];
    this.isFilled = false;
    this.selected = -1;
    /** @type {Map<string, {row: HTMLElement, version: unknown, index: number}>} */
    this.drawn = new Map();
    this.space = h("div", { class: "list-space" });
    this.empty = h("p", { class: "empty", hidden: true }, options.empty ?? "Nothing here yet.");
    this.element = h(
      "div",
      {
        class: "list",
        role: "listbox",
        tabindex: 0,
        "aria-label": options.label,
        onscroll: () => this.schedule(),
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.onKey(event),
        onclick: (/** @type {MouseEvent} */ event) => this.onClick(event),
      },
      this.space,
      this.empty,
    );
    this.isScheduled = false;
    this.observer = new ResizeObserver(() => this.schedule());
    this.observer.observe(this.element);
    this.phone = matchMedia(PHONE);
    this.onTurn = () => this.redraw();
    this.phone.addEventListener("change", this.onTurn);
  }

  /** The height of each row, in pixels. */
  get rowHeight() {
    return (this.phone.matches && this.options.phoneRowHeight) || this.options.rowHeight;
  }

  /** End the observation of its size. */
  close() {
    this.observer.disconnect();
    this.phone.removeEventListener("change", this.onTurn);
  }

  /** @param {Item[]} items */
  setItems(items) {
    const key = this.getSelectedKey();
    this.items = items;
    this.isFilled = true;
    this.selected = key === null ? -1 : items.findIndex((item) => this.options.getKey(item) === key);
    this.schedule();
  }

  /** Show no items until there are others, for example while a filter is applied. */
  clear() {
    this.items = [];
    this.isFilled = false;
    this.selected = -1;
    this.schedule();
  }

  /**
   * Put new items above the others; what is in sight stays where it is, unless the list is at its top.
   * @param {Item[]} newer
   */
  prepend(newer) {
    if (newer.length === 0) return;
    const isAtTop = this.element.scrollTop < this.rowHeight;
    this.items = [...newer, ...this.items];
    if (this.selected >= 0) this.selected += newer.length;
    this.resize();
    if (!isAtTop) this.element.scrollTop += newer.length * this.rowHeight;
    this.schedule();
  }

  getSelectedKey() {
    const item = this.items[this.selected];
    return item === undefined ? null : this.options.getKey(item);
  }

  /** @param {string | null} key */
  select(key) {
    this.selected = key === null ? -1 : this.items.findIndex((item) => this.options.getKey(item) === key);
    this.schedule();
  }

  schedule() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      this.render();
    });
  }

  resize() {
    this.space.style.height = `${this.items.length * this.rowHeight}px`;
    this.empty.hidden = this.items.length > 0 || !this.isFilled; // before the first answer, nothing is known
  }

  render() {
    const { draw, getKey, getVersion, onEnd } = this.options;
    const { rowHeight } = this;
    this.resize();
    const first = Math.max(0, Math.floor(this.element.scrollTop / rowHeight) - SPARE);
    const last = Math.min(this.items.length, Math.ceil((this.element.scrollTop + this.element.clientHeight) / rowHeight) + SPARE);
    const wanted = new Set();
    for (let index = first; index < last; index += 1) {
      const item = /** @type {Item} */ (this.items[index]);
      const key = getKey(item);
      wanted.add(key);
      let known = this.drawn.get(key);
      const version = getVersion?.(item);
      if (known === undefined || known.version !== version) {
        const row = draw(item, index);
        row.classList.add("row");
        row.setAttribute("role", "option");
        row.style.height = `${rowHeight}px`;
        if (known === undefined) this.space.appendChild(row);
        else known.row.replaceWith(row);
        known = { row, version, index };
        this.drawn.set(key, known);
      }
      known.index = index;
      known.row.id ||= `row-${Math.random().toString(36).slice(2)}`;
      known.row.dataset["index"] = String(index);
      known.row.style.transform = `translateY(${index * rowHeight}px)`;
      known.row.setAttribute("aria-selected", String(index === this.selected));
      known.row.setAttribute("aria-setsize", String(this.items.length));
      known.row.setAttribute("aria-posinset", String(index + 1));
      if (index === this.selected) this.element.setAttribute("aria-activedescendant", known.row.id);
    }
    for (const [key, known] of this.drawn) {
      if (!wanted.has(key)) {
        known.row.remove();
        this.drawn.delete(key);
      }
    }
    if (this.selected < 0) this.element.removeAttribute("aria-activedescendant");
    if (last >= this.items.length) onEnd?.();
  }

  /** @param {MouseEvent} event */
  onClick(event) {
    const row = event.target instanceof Element ? event.target.closest("[data-index]") : null;
    if (row === null || (event.target instanceof Element && event.target.closest("a, button, input"))) return;
    this.open(Number(row.getAttribute("data-index")));
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 1);
    /** @type {Record<string, number>} */
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (step !== undefined && this.items.length > 0) {
      event.preventDefault();
      this.selected = Math.min(this.items.length - 1, Math.max(0, this.selected + step));
      this.reveal(this.selected);
      this.schedule();
    } else if (event.key === "Enter" && this.selected >= 0) {
      event.preventDefault();
      this.open(this.selected);
    }
  }

  /** @param {number} index */
  reveal(index) {
    const top = index * this.rowHeight;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + this.rowHeight > scrollTop + clientHeight) {
      this.element.scrollTop = top + this.rowHeight - clientHeight;
    }
  }

  /** @param {number} index */
  open(index) {
    const item = this.items[index];
    if (item === undefined) return;
    this.selected = index;
    this.schedule();
    this.options.onOpen?.(item);
  }

  /** Forget what was drawn, for example when columns change. */
  redraw() {
    this.drawn.clear();
    replace(this.space);
    this.schedule();
  }
}
