// @ts-check
// Calls over time: the window, its plots, and tables of its tools and errors.

import { Chart } from "../chart.js";
import { h, replace } from "../dom.js";
import { formatBytes, formatCount, formatDuration, formatTime } from "../format.js";
import { section, showError } from "../parts.js";
import { buildPath, go } from "../router.js";
import { drawErrors, ToolTable } from "./tables.js";

/** @typedef {import("./types.js").Activity} Activity */
/** @typedef {import("./types.js").ActivityPoint} ActivityPoint */

/** @type {[name: string, title: string][]} */
export const WINDOWS = [
  ["15m", "15 min"],
  ["1h", "1 hour"],
  ["6h", "6 hours"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
];

/** @param {number} value */
const formatCost = (value) => (value === 0 ? "$0" : `$${value >= 1 ? value.toFixed(2) : value.toPrecision(2)}`);
/** @param {number} value */
const formatShort = (value) => (value >= 1000 ? formatBytes(value).replace("B", "").trim() : formatCount(Number(value.toFixed(2))));

/**
 * @typedef {object} Plot
 * @property {import("../chart.js").ChartOptions} options
 * @property {((point: ActivityPoint, minutes: number) => number | null)[]} pick   for each series
 */

/**
 * Go to the calls of a slot.
 * @param {number} from
 * @param {number} to
 */
const open = (from, to) => go(buildPath("calls", null, { from: new Date(from).toISOString(), to: new Date(to).toISOString() }));

/** @type {Plot[]} */
const PLOTS = [
  {
    options: {
      title: "Calls per minute",
      kind: "bars",
      series: [
        { name: "failed", tone: "error" },
        { name: "ok", tone: "accent" },
        { name: "running or waiting", tone: "wait" },
      ],
      format: formatShort,
      onOpen: open,
    },
    pick: [
      (point, minutes) => point.errors / minutes,
      (point, minutes) => (point.calls - point.errors - point.running - point.interrupted - point.asked) / minutes,
      (point, minutes) => (point.running + point.interrupted + point.asked) / minutes,
    ],
  },
  {
    options: {
      title: "Failed calls",
      kind: "area",
      series: [{ name: "failed", tone: "error" }],
      format: (value) => `${Number(value.toFixed(1))} %`,
      least: 5,
      empty: "No call has failed in this time.",
      onOpen: open,
    },
    pick: [(point) => (point.calls === 0 ? null : (100 * point.errors) / point.calls)],
  },
  {
    options: {
      title: "Duration",
      kind: "lines",
      series: [
        { name: "p95", tone: "warn" },
        { name: "p50", tone: "accent" },
      ],
      format: (value) => (value === 0 ? "0" : formatDuration(value).replace(/\.0+ /, " ")),
      empty: "No call has ended in this time.",
      onOpen: open,
    },
    pick: [(point) => point.p95_ms, (point) => point.p50_ms],
  },
  {
    options: {
      title: "Result characters",
      kind: "bars",
      series: [{ name: "characters", tone: "accent" }],
      format: formatShort,
      empty: "No results in this time.",
      onOpen: open,
    },
    pick: [(point) => point.result_chars],
  },
  {
    options: {
      title: "Cost",
      kind: "bars",
      series: [{ name: "cost", tone: "accent" }],
      format: formatCost,
      empty: "No call has reported a cost.",
      onOpen: open,
    },
    pick: [(point) => point.cost_usd],
  },
];

export class ActivityPanel {
  /**
   * @param {string} name
   * @param {(name: string) => void} onChoose
   */
  constructor(name, onChoose) {
    this.charts = PLOTS.map((plot) => new Chart(plot.options));
    this.tools = new ToolTable();
    this.slotMs = 60_000;
    this.progress = h("span", { class: "health-progress", role: "status" });
    this.problem = h("div", {});
    this.errors = h("div", { class: "health-table" });
    const choice = h(
      "div",
      { class: "choice", role: "radiogroup", "aria-label": "Time" },
      WINDOWS.map(([value, title]) =>
        h("label", {}, h("input", { type: "radio", name: "window", value, checked: value === name, onchange: () => onChoose(value) }), h("span", {}, title)),
      ),
    );
    this.element = h(
      "div",
      { class: "activity" },
      h("header", { class: "activity-head" }, h("h2", {}, "Calls"), choice, this.progress),
      this.problem,
      h("div", { class: "charts" }, this.charts.map((chart) => chart.element)),
      section("Tools, slowest first", this.tools.element),
      section("Errors", this.errors),
    );
  }

  close() {
    for (const chart of this.charts) chart.close();
  }

  getSlotMs() {
    return this.slotMs;
  }

  /** @param {Activity} activity */
  show(activity) {
    replace(this.problem, activity.progress.problem !== null && h("div", { class: "problem", role: "alert" }, activity.progress.problem));
    this.slotMs = activity.slot_seconds * 1000;
    const times = activity.points.map((point) => Date.parse(point.at));
    PLOTS.forEach((plot, place) => {
      const values = plot.pick.map((pick) => activity.points.map((point) => pick(point, activity.slot_seconds / 60)));
      this.charts[place]?.update({ times, slotMs: this.slotMs, values });
    });
    this.tools.show(activity);
    replace(this.errors, drawErrors(activity));
    const { calls, counted_from, is_complete, is_current } = activity.progress;
    const isDone = is_complete && is_current;
    const back = counted_from === null ? "" : `, back to ${formatTime(counted_from)}`;
    const text = isDone ? "" : is_complete ? "Reading new calls…" : `Reading the journal: ${formatCount(calls)} calls${back}…`;
    if (this.progress.textContent !== text) this.progress.textContent = text;
  }

  /** @param {unknown} error */
  showProblem(error) {
    replace(this.problem, showError(error));
  }
}
