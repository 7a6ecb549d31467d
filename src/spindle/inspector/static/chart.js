// @ts-check
// Plots over time, drawn as SVG: lines, areas and stacked bars, with a readout by pointer and by keys.

import { h, replace, svg } from "./dom.js";
import { buildTable, formatMoment } from "./chart_table.js";
import { buildScale } from "./scale.js";

/**
 * One row of values. `tone` chooses its colour: a class `tone-…` of chart.css.
 * @typedef {object} Series
 * @property {string} name
 * @property {"accent" | "ok" | "error" | "warn" | "wait" | "quiet"} tone
 */
/**
 * @typedef {object} ChartOptions
 * @property {string} title                                 its accessible name, and its heading
 * @property {"bars" | "lines" | "area"} kind               bars are stacked
 * @property {Series[]} series
 * @property {(value: number) => string} format             of values, for the axis, the readout and the table
 * @property {number} [height]                              of the plot, in pixels
 * @property {number} [least]                               the axis reaches at least this value
 * @property {string} [empty]                               shown if there are no values
 * @property {(from: number, to: number) => void} [onOpen]  called by a click or Enter with the times of a slot
 */
/**
 * What is drawn: a time for each slot, and for each series its values; `null` where there is none.
 * @typedef {object} ChartData
 * @property {number[]} times        when slots begin, in milliseconds since 1970
 * @property {number} slotMs
 * @property {(number | null)[][]} values
 */

const LEFT = 44;
const RIGHT = 6;
const TOP = 6;
const BOTTOM = 18;
const MARK_SPACE = 90;

/** A plot; `update` draws other data in the same place. */
export class Chart {
  /** @param {ChartOptions} options */
  constructor(options) {
    this.options = options;
    this.height = options.height ?? 120;
    /** @type {ChartData} */
    this.data = { times: [], slotMs: 1, values: [] };
    this.chosen = -1;
    this.width = 0;
    this.drawing = svg("svg", { class: "chart-drawing", height: this.height, width: "100%", "aria-hidden": "true", focusable: "false" });
    this.cursor = svg("g", { class: "chart-cursor" });
    this.readout = h("p", { class: "chart-readout" });
    this.empty = h("p", { class: "chart-empty", hidden: true }, options.empty ?? "No calls in this time.");
    this.plot = h(
      "div",
      {
        class: "chart-plot",
        role: "slider",
        tabindex: 0,
        "aria-label": options.title,
        "aria-orientation": "horizontal",
        "aria-valuemin": 0,
        "aria-valuenow": 0,
        onpointermove: (/** @type {PointerEvent} */ event) => this.choose(this.findSlot(event)),
        onpointerleave: () => this.choose(document.activeElement === this.plot ? this.chosen : -1),
        onfocus: () => this.choose(this.chosen < 0 ? this.data.times.length - 1 : this.chosen),
        onblur: () => this.choose(-1),
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.onKey(event),
        onclick: (/** @type {MouseEvent} */ event) => this.open(this.findSlot(event)),
      },
      this.drawing,
      this.empty,
    );
    this.plot.style.height = `${this.height}px`;
    if (options.onOpen !== undefined) this.plot.classList.add("can-open");
    this.rows = h("div", {});
    this.table = h("details", { class: "chart-table", ontoggle: () => this.drawTable() }, h("summary", { "aria-label": `${options.title} as a table` }, "Table"), this.rows);
    const legend = options.series.length > 1 ? h("ul", { class: "chart-legend" }, options.series.map((each) => h("li", { class: `tone-${each.tone}` }, each.name))) : null;
    this.element = h("figure", { class: "chart" }, h("figcaption", {}, h("h3", {}, options.title), legend, this.readout), this.plot, this.table);
    this.observer = new ResizeObserver((entries) => this.resize(entries[0]?.contentRect.width ?? 0));
    this.observer.observe(this.plot);
  }

  /** End the observation of its size. */
  close() {
    this.observer.disconnect();
  }

  /** @param {ChartData} data */
  update(data) {
    // The slot in the readout stays the same time while others arrive.
    const time = this.data.times[this.chosen];
    this.data = data;
    this.chosen = time === undefined ? -1 : data.times.indexOf(time);
    this.draw();
    this.drawTable();
  }

  /** @param {number} width */
  resize(width) {
    if (Math.round(width) === this.width) return;
    this.width = Math.round(width);
    this.draw();
  }

  draw() {
    const { times, values } = this.data;
    const { kind, series, least = 0, format } = this.options;
    if (this.width === 0) return;
    const rows = series.map((_, row) => values[row] ?? []);
    const highest = times.map((_, slot) => {
      const here = rows.map((row) => row[slot] ?? 0);
      return kind === "bars" ? here.reduce((sum, value) => sum + value, 0) : Math.max(0, ...here);
    });
    const isEmpty = rows.every((row) => row.every((value) => !value));
    this.empty.hidden = !isEmpty;
    const scale = buildScale(Math.max(least, ...highest, 0));
    this.toY = (/** @type {number} */ value) => this.height - BOTTOM - (value / scale.max) * (this.height - TOP - BOTTOM);
    const marks = scale.marks.map((mark) =>
      svg(
        "g",
        {},
        svg("line", { class: "chart-grid", x1: LEFT, x2: this.width - RIGHT, y1: this.round(this.toY?.(mark) ?? 0), y2: this.round(this.toY?.(mark) ?? 0) }),
        isEmpty && mark > 0 ? null : svg("text", { class: "chart-mark", x: LEFT - 6, y: (this.toY?.(mark) ?? 0) + 4, "text-anchor": "end" }, format(mark)),
      ),
    );
    const shapes = kind === "bars" ? this.drawBars(rows) : rows.map((row, place) => this.drawLine(row, series[place]?.tone ?? "accent"));
    replace(this.drawing, marks, this.drawTimes(), shapes, this.cursor);
    this.choose(this.chosen);
    this.plot.setAttribute("aria-valuemax", String(Math.max(0, times.length - 1)));
  }

  /** @param {(number | null)[][]} rows */
  drawBars(rows) {
    const step = this.getStep();
    const gap = step > 4 ? 1 : 0;
    const base = rows[0]?.map(() => 0) ?? [];
    // One path for each series: a hundred slots are one element.
    return rows.map((row, place) => {
      const parts = row.map((value, slot) => {
        if (!value) return "";
        const from = base[slot] ?? 0;
        base[slot] = from + value;
        const x = LEFT + slot * step + gap / 2;
        const top = this.toY?.(from + value) ?? 0;
        const bottom = this.toY?.(from) ?? 0;
        const y = Math.min(top, bottom - 1); // so that one failed call among thousands can be seen
        return `M${x.toFixed(1)} ${bottom.toFixed(1)}V${y.toFixed(1)}h${Math.max(1, step - gap).toFixed(1)}V${bottom.toFixed(1)}z`;
      });
      return svg("path", { class: `chart-bar tone-${this.options.series[place]?.tone}`, d: parts.join("") });
    });
  }

  /**
   * @param {(number | null)[]} row
   * @param {string} tone
   */
  drawLine(row, tone) {
    /** @type {[number, number][][]} */
    const runs = [[]];
    row.forEach((value, slot) => {
      if (value === null) runs.push([]);
      else runs.at(-1)?.push([this.toX(slot), this.toY?.(value) ?? 0]);
    });
    const found = runs.filter((run) => run.length > 0);
    const line = found.map((run) => `M${run.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`).join("");
    const floor = this.height - BOTTOM;
    const area = found.map((run) => `M${run[0]?.[0].toFixed(1)} ${floor}L${run.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}L${run.at(-1)?.[0].toFixed(1)} ${floor}z`);
    const alone = found.filter((run) => run.length === 1).map(([point]) => svg("circle", { cx: point?.[0], cy: point?.[1], r: 1.5 }));
    return svg(
      "g",
      { class: `chart-line tone-${tone}` },
      this.options.kind === "area" && svg("path", { class: "chart-area", d: area.join("") }),
      svg("path", { class: "chart-stroke", d: line }),
      alone,
    );
  }

  drawTimes() {
    const { times, slotMs } = this.data;
    const count = Math.max(2, Math.floor((this.width - LEFT) / MARK_SPACE));
    const every = Math.max(1, Math.ceil(times.length / count));
    return times.map((time, slot) => {
      if (slot % every !== 0 || this.toX(slot) > this.width - 40) return null;
      return svg("text", { class: "chart-mark", x: LEFT + slot * this.getStep(), y: this.height - 4 }, formatMoment(time, slotMs, times));
    });
  }

  getStep() {
    return Math.max(0.1, (this.width - LEFT - RIGHT) / Math.max(1, this.data.times.length));
  }

  /** @param {number} slot */
  toX(slot) {
    return LEFT + (slot + 0.5) * this.getStep();
  }

  /** @param {number} value */
  round(value) {
    return Math.round(value) + 0.5; // a sharp line
  }

  /** @param {MouseEvent} event */
  findSlot(event) {
    const x = event.clientX - this.plot.getBoundingClientRect().left - LEFT;
    return Math.min(this.data.times.length - 1, Math.max(0, Math.floor(x / this.getStep())));
  }

  /**
   * Show the values of a slot; none if it is negative.
   * @param {number} slot
   */
  choose(slot) {
    const time = this.data.times[slot];
    this.chosen = time === undefined ? -1 : slot;
    if (time === undefined) {
      replace(this.cursor);
      replace(this.readout);
      this.plot.removeAttribute("aria-valuetext");
      return;
    }
    const { series, format } = this.options;
    const shown = series.map((each, row) => {
      const value = this.data.values[row]?.[slot];
      return { tone: each.tone, text: `${series.length > 1 ? `${each.name} ` : ""}${value === null || value === undefined ? "–" : format(value)}` };
    });
    const moment = formatMoment(time, this.data.slotMs, this.data.times);
    const x = this.toX(slot);
    replace(this.cursor, svg("line", { x1: x, x2: x, y1: TOP, y2: this.height - BOTTOM }));
    replace(this.readout, h("span", { class: "muted" }, moment), shown.map((each) => h("span", { class: `tone-${each.tone}` }, each.text)));
    this.plot.setAttribute("aria-valuenow", String(slot));
    this.plot.setAttribute("aria-valuetext", `${moment}: ${shown.map((each) => each.text).join(", ")}`);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const last = this.data.times.length - 1;
    /** @type {Record<string, number>} */
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -last, End: last };
    const step = steps[event.key];
    if (event.key === "Enter") this.open(this.chosen);
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.choose(Math.min(last, Math.max(0, (this.chosen < 0 ? last : this.chosen) + step)));
  }

  /** @param {number} slot */
  open(slot) {
    const time = this.data.times[slot];
    if (time !== undefined) this.options.onOpen?.(time, time + this.data.slotMs);
  }

  drawTable() {
    if (this.table.open) replace(this.rows, buildTable(this.options, this.data));
  }
}
