// @ts-check
// The tab of the search: hits with the lines around them, and how far the search got.

import { get, isAborted } from "../api.js";
import { append, h, replace } from "../dom.js";
import { formatBytes, formatCount, plural } from "../format.js";
import { VirtualList } from "../list.js";
import { showError } from "../parts.js";
import { setQuery } from "../router.js";
import { openPiece } from "./piece.js";

/** @typedef {import("./types.js").Hit} Hit */
/** @typedef {import("./types.js").SearchPage} SearchPage */
/** @typedef {import("./types.js").Reading} Reading */

const MAX_ROWS = 20_000;
/** The width of a character of the hits, and of the column of line numbers beside them. */
const CHAR_PX = 7.3;
const NUMBER_PX = 110;

/** The last search of an artifact, which the tab of lines shows too. */
export class Finding {
  constructor() {
    this.pattern = "";
    this.flags = "";
    this.context = 0;
    /** @type {Hit[]} */
    this.rows = [];
    /** @type {Hit[]} */
    this.hits = [];
    /** @type {Map<number, Hit>} */
    this.byLine = new Map();
    this.current = -1;
    /** @type {number | null} */
    this.next = null;
    this.scanned = 0;
  }

  clear() {
    this.rows = [];
    this.hits = [];
    this.byLine.clear();
    this.current = -1;
    this.next = 0;
    this.scanned = 0;
  }

  /** @param {SearchPage} page */
  add(page) {
    this.rows = [...this.rows, ...page.rows];
    for (const row of page.rows) {
      if (row.is_context) continue;
      this.hits.push(row);
      if (!this.byLine.has(row.line)) this.byLine.set(row.line, row);
    }
    this.next = page.next_byte;
    this.scanned = page.scanned_to;
  }

  /** @param {number} line */
  findHit(line) {
    return this.byLine.get(line);
  }

  /**
   * Return the next hit, or the one before.
   * @param {number} by
   */
  step(by) {
    if (this.hits.length === 0) return undefined;
    this.current = (this.current + by + this.hits.length) % this.hits.length;
    return this.hits[this.current];
  }
}

/**
 * Draw the search of an artifact; returns a function that ends it.
 * @param {HTMLElement} panel
 * @param {Reading} reading
 */
export function drawSearch(panel, reading) {
  const { finding } = reading;
  let running = new AbortController();
  const pattern = h("input", { type: "search", value: finding.pattern, placeholder: "Regular expression (RE2)", "aria-label": "Search this artifact", spellcheck: "false", maxlength: 2000 });
  const ignoresCase = h("input", { type: "checkbox", checked: finding.flags === "i" });
  const context = h("select", { "aria-label": "Lines around a hit" }, [0, 1, 3, 10].map((lines) => h("option", { value: lines, selected: lines === finding.context }, lines === 0 ? "no context" : `± ${plural(lines, "line")}`)));
  const status = h("span", { class: "hint", role: "status" });
  const problem = h("div", {});
  const stop = h("button", { type: "button", hidden: true, onclick: () => running.abort() }, "Stop");
  const more = h("button", { type: "button", hidden: true, onclick: () => void run() }, "Search on");
  const retry = h("p", { class: "retry", hidden: true }, "No line matches in this case. ", h("button", { type: "button", onclick: () => searchAnyCase() }, "Ignore case"));
  /** @type {VirtualList<Hit>} */
  const list = new VirtualList({
    label: "Hits",
    rowHeight: 22,
    getKey: (hit) => `${hit.byte}${hit.is_context ? "c" : ""}`,
    draw: (hit) => drawHit(hit, Math.floor((list.element.clientWidth - NUMBER_PX) / CHAR_PX)),
    onOpen: (hit) => openHit(reading, hit),
    empty: "",
  });

  const tell = (/** @type {boolean} */ isRunning) => {
    const size = reading.facts.byte_length;
    const isOver = finding.next === null;
    stop.hidden = !isRunning;
    more.hidden = isRunning || isOver || finding.pattern === "";
    retry.hidden = isRunning || !isOver || finding.pattern === "" || finding.hits.length > 0 || finding.flags === "i";
    panel.toggleAttribute("data-running", isRunning);
    status.textContent = finding.pattern === "" ? "" : `${plural(finding.hits.length, "hit")}${isOver ? "" : ` in the first ${formatBytes(finding.scanned)} of ${formatBytes(size)}`}`;
    list.empty.textContent = isRunning ? "Searching …" : finding.pattern === "" ? "" : retry.hidden ? `No line matches${isOver ? "" : " so far"}.` : "";
    list.setItems(finding.rows);
  };

  /** Search until there are new hits, or the end. */
  const run = async () => {
    running.abort();
    running = new AbortController();
    const { signal } = running;
    const known = finding.hits.length;
    replace(problem);
    tell(true);
    try {
      while (finding.next !== null && finding.hits.length === known && finding.rows.length < MAX_ROWS) {
        const query = { id: reading.id, pattern: finding.pattern, flags: finding.flags, before: finding.context, after: finding.context, byte: finding.next };
        finding.add(await get("/artifacts/search", query, signal));
        if (!signal.aborted) tell(true);
      }
    } catch (error) {
      if (!isAborted(error)) replace(problem, showError(error));
    }
    if (running.signal !== signal) return;
    tell(false);
    // Without a hit, the pattern is what to change.
    if (finding.hits.length > 0 && document.activeElement === pattern && pattern.value === finding.pattern) list.element.focus();
  };

  const begin = () => {
    finding.clear();
    finding.pattern = pattern.value;
    finding.flags = ignoresCase.checked ? "i" : "";
    finding.context = Number(context.value);
    setQuery({ tab: "grep", q: finding.pattern, flags: finding.flags, context: finding.context || null });
    if (finding.pattern !== "") void run();
    else tell(false);
  };

  const searchAnyCase = () => {
    ignoresCase.checked = true;
    pattern.focus();
    begin();
  };

  const form = h(
    "form",
    {
      class: "toolbar",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        pattern.focus();
        begin();
      },
    },
    pattern,
    h("label", { class: "check" }, ignoresCase, "ignore case"),
    context,
    h("button", { class: "primary", type: "submit" }, "Search"),
    stop,
    more,
    status,
  );
  append(panel, [form, problem, retry, list.element]);
  reading.signal.addEventListener("abort", () => running.abort(), { once: true });
  tell(false);
  if (finding.pattern !== "" && finding.rows.length === 0 && finding.next === 0) void run();
  pattern.focus();
  return () => {
    running.abort();
    list.close();
  };
}

/**
 * Draw a hit; the text before the match is shortened where the match would be out of sight.
 * @param {Hit} hit
 * @param {number} room   how many characters fit into a row
 */
function drawHit(hit, room) {
  const text = h("span", { class: "line-text", dir: "ltr", title: hit.text });
  const { match_start: from, match_end: to } = hit;
  const first = to <= room ? 0 : Math.max(0, from - Math.max(8, Math.floor(room / 3)));
  append(
    text,
    hit.is_context
      ? [hit.text]
      : [(hit.is_cut_before || first > 0) && "…", hit.text.slice(first, from), h("mark", {}, hit.text.slice(from, to)), hit.text.slice(to), hit.is_cut_after && "…"],
  );
  return h("div", { class: `hit${hit.is_context ? " context" : ""}` }, h("span", { class: "line-number" }, formatCount(hit.line + 1)), text);
}

/**
 * @param {Reading} reading
 * @param {Hit} hit
 */
function openHit(reading, hit) {
  if (hit.is_cut_before) {
    openPiece(reading, Math.max(0, hit.byte - 150));
    return;
  }
  reading.finding.current = reading.finding.hits.indexOf(hit);
  reading.line = hit.line;
  reading.choose("lines");
}
