// @ts-check
// The tools of a window, by how slow they are or how often they fail, and its errors.

import { h, replace } from "../dom.js";
import { formatCount, formatDuration, formatBytes } from "../format.js";
import { buildPath } from "../router.js";

/** @typedef {import("./types.js").Activity} Activity */
/** @typedef {import("./types.js").ToolActivity} ToolActivity */

const FIRST = 15;

/** @type {{title: string, key: (row: ToolActivity) => number, text: (row: ToolActivity) => string, isWide?: boolean}[]} */
const COLUMNS = [
  { title: "Calls", key: (row) => row.calls, text: (row) => formatCount(row.calls) },
  { title: "Failed", key: (row) => row.errors, text: (row) => (row.errors === 0 ? "0" : `${formatCount(row.errors)} (${Math.max(1, Math.round((100 * row.errors) / row.calls))} %)`) },
  { title: "p50", key: (row) => row.p50_ms ?? -1, text: (row) => formatTaken(row.p50_ms), isWide: true },
  { title: "p95", key: (row) => row.p95_ms ?? -1, text: (row) => formatTaken(row.p95_ms) },
  { title: "Longest", key: (row) => row.max_ms ?? -1, text: (row) => formatTaken(row.max_ms), isWide: true },
  { title: "Characters", key: (row) => row.result_chars, text: (row) => formatBytes(row.result_chars).replace(/ ?B$/, ""), isWide: true },
];

/**
 * A tool that only had refused calls has taken no time.
 * @param {number | null} ms
 */
function formatTaken(ms) {
  return formatDuration(ms === 0 ? null : ms);
}

/**
 * A link to the calls of a tool, with a code if there is one.
 * @param {Activity} activity
 * @param {string | null} tool
 * @param {Record<string, string | null>} [more]
 */
function linkCalls(activity, tool, more = {}) {
  return buildPath("calls", null, { tool, from: activity.started_from, ...more });
}

/** Sorts by a column when its heading is chosen. */
export class ToolTable {
  constructor() {
    this.sorted = 3;
    this.hasAll = false;
    /** @type {Activity | null} */
    this.activity = null;
    this.head = h("tr", {});
    this.body = h("tbody", {});
    this.more = h("button", { class: "quiet", hidden: true, onclick: () => this.toggle() });
    this.buttons = COLUMNS.map((column, place) => h("button", { class: "sort", onclick: () => this.sort(place) }, column.title));
    replace(
      this.head,
      h("th", { scope: "col" }, "Tool"),
      COLUMNS.map((column, place) => h("th", { scope: "col", class: column.isWide ? "number wide" : "number" }, this.buttons[place])),
    );
    this.element = h("div", { class: "health-table" }, h("table", { class: "data" }, h("thead", {}, this.head), this.body), this.more);
  }

  /** @param {number} place */
  sort(place) {
    this.sorted = place;
    if (this.activity !== null) this.show(this.activity);
  }

  toggle() {
    this.hasAll = !this.hasAll;
    if (this.activity !== null) this.show(this.activity);
  }

  /** @param {Activity} activity */
  show(activity) {
    this.activity = activity;
    const column = COLUMNS[this.sorted];
    this.head.querySelectorAll("th").forEach((cell, place) => {
      if (place === this.sorted + 1) cell.setAttribute("aria-sort", "descending");
      else cell.removeAttribute("aria-sort");
    });
    const rows = [...activity.tools].sort((one, other) => (column?.key(other) ?? 0) - (column?.key(one) ?? 0));
    const shown = this.hasAll ? rows : rows.slice(0, FIRST);
    const focused = document.activeElement?.getAttribute("data-tool");
    replace(this.body, shown.length > 0 ? shown.map((row) => this.drawRow(activity, row)) : h("tr", {}, h("td", { colspan: COLUMNS.length + 1, class: "muted" }, "No calls in this time.")));
    if (focused) [...this.body.querySelectorAll("a")].find((link) => link.getAttribute("data-tool") === focused)?.focus({ preventScroll: true });
    this.more.hidden = rows.length <= FIRST;
    this.more.textContent = this.hasAll ? "Show fewer" : `Show all ${rows.length}`;
  }

  /**
   * @param {Activity} activity
   * @param {ToolActivity} row
   */
  drawRow(activity, row) {
    const name = row.tool === null ? h("span", { class: "muted" }, "other tools") : h("a", { class: "mono", href: linkCalls(activity, row.tool), dataset: { tool: row.tool } }, row.tool);
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      COLUMNS.map((column, place) => {
        const text = column.text(row);
        const isFailed = place === 1 && row.errors > 0 && row.tool !== null;
        const content = isFailed ? h("a", { class: "failed", href: linkCalls(activity, row.tool, { outcome: "error" }), "aria-label": `${text} failed calls of ${row.tool}`, dataset: { tool: `${row.tool} failed` } }, text) : text;
        return h("td", { class: column.isWide ? "number wide" : "number" }, content);
      }),
    );
  }
}

/** @param {Activity} activity */
export function drawErrors(activity) {
  if (activity.errors.length === 0) return h("p", { class: "hint" }, "No call has failed in this time.");
  const most = activity.errors[0]?.count ?? 1;
  return h(
    "table",
    { class: "data errors" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Code"), h("th", { scope: "col" }, "Tool"), h("th", { scope: "col", class: "number" }, "Calls"), h("th", { scope: "col", class: "wide" }, h("span", { class: "sr-only" }, "Share")))),
    h(
      "tbody",
      {},
      activity.errors.slice(0, FIRST).map((row) => {
        const bar = h("div", { class: "share" });
        bar.style.width = `${Math.max(1, (100 * row.count) / most)}%`;
        const code = row.code ?? "other codes";
        return h(
          "tr",
          {},
          h("th", { scope: "row" }, row.code === null || row.tool === null ? code : h("a", { class: "mono failed", href: linkCalls(activity, row.tool, { code: row.code }) }, code)),
          h("td", { class: "mono" }, row.tool ?? "other tools"),
          h("td", { class: "number" }, formatCount(row.count)),
          h("td", { class: "wide" }, bar),
        );
      }),
    ),
  );
}
