// @ts-check
// The values of a plot as a table, and the times of its slots as text.

import { h } from "./dom.js";

const DAY = 86_400_000;

/**
 * The time of a slot: with seconds only if slots are shorter than a minute, with the day only if the plot is longer.
 * @param {number} time
 * @param {number} slotMs
 * @param {number[]} times   of all slots
 */
export function formatMoment(time, slotMs, times) {
  const date = new Date(time);
  /** @type {Intl.DateTimeFormatOptions} */
  const parts = { hour: "2-digit", minute: "2-digit", hour12: false };
  if (slotMs < 60_000) parts.second = "2-digit";
  const text = date.toLocaleTimeString(undefined, parts);
  const length = (times.at(-1) ?? time) - (times[0] ?? time);
  if (length < DAY * 1.5) return text;
  return `${date.toLocaleDateString(undefined, { weekday: "short", day: "numeric" })} ${text}`;
}

/**
 * All values, the newest first; slots without any are left out.
 * @param {import("./chart.js").ChartOptions} options
 * @param {import("./chart.js").ChartData} data
 */
export function buildTable({ title, series, format }, { times, slotMs, values }) {
  const slots = times.map((_, slot) => slot).reverse();
  const filled = slots.filter((slot) => values.some((row) => row[slot]));
  const cell = (/** @type {number | null | undefined} */ value) => h("td", { class: "number" }, value === null || value === undefined ? "–" : format(value));
  return h(
    "div",
    { class: "chart-rows", tabindex: 0, role: "region", "aria-label": `${title} as a table` },
    h(
      "table",
      { class: "data" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Time"), series.map((each) => h("th", { scope: "col", class: "number" }, each.name)))),
      h("tbody", {}, filled.map((slot) => h("tr", {}, h("th", { scope: "row" }, formatMoment(times[slot] ?? 0, slotMs, times)), series.map((_, row) => cell(values[row]?.[slot]))))),
    ),
    filled.length === 0 && h("p", { class: "hint" }, "No values."),
  );
}
