// @ts-check
// A batch as a waterfall: a row for each call, with what it waited for and did, its deadline and its share of the budget.

import { h, replace, svg } from "../dom.js";
import { formatCode, formatCount, formatDuration, plural, shorten } from "../format.js";
import { badge } from "../parts.js";
import { buildPath } from "../router.js";
import { buildScale } from "../scale.js";

/**
 * @typedef {object} Span
 * @property {string} kind
 * @property {number} start_ms   since the batch began
 * @property {number} end_ms
 * @property {string[]} names    of the resources that it waited for
 */
/**
 * @typedef {object} CallEvent
 * @property {string} kind
 * @property {string} text
 * @property {number} at_ms
 */
/**
 * @typedef {object} BatchCall
 * @property {string} key
 * @property {string} tool_call_id
 * @property {string} tool
 * @property {string} state
 * @property {string | null} code
 * @property {number | null} position
 * @property {number} attempts
 * @property {Span[]} spans
 * @property {CallEvent[]} events
 * @property {number | null} end_ms
 * @property {number | null} deadline_ms
 * @property {number | null} share_chars
 * @property {number | null} used_chars
 * @property {boolean} is_truncated
 * @property {boolean} is_spooled
 */
/**
 * @typedef {object} Batch
 * @property {string | null} batch_id
 * @property {string} began_at
 * @property {number} call_count
 * @property {number | null} duration_ms
 * @property {number | null} batch_deadline_ms
 * @property {boolean} is_complete
 * @property {BatchCall[]} calls
 */

/** What each part of a call means; the order is that of the legend. @type {Record<string, [title: string, hint: string]>} */
const KINDS = {
  admission: ["Admission", "the checks of all calls of the batch"],
  journal: ["Journal", "until its intent was on the disk"],
  queue: ["Queue", "until a task took the call"],
  approval: ["Approval", "until a person answered"],
  locks: ["Locks", "until others released the resources"],
  slot: ["Slot", "until the executor had a free slot"],
  reconcile: ["Reconciling", "until the tool said what became of an interrupted call"],
  preparation: ["Preparation", "checks, interceptors and capability handles"],
  handler: ["Handler", "the tool itself"],
  retry: ["Retry", "the pause before the next attempt"],
  completion: ["Completion", "redaction and interceptors after the handler"],
  media: ["Media", "until its media was in the spool"],
  batch: ["Others", "until the other calls of the batch had ended"],
  fit: ["Fitting", "results reduced and cut to the budget"],
};
const WIDTH = 1000;
const ROW = 16;
const LEAST = 2;
/** A deadline that is further away than this many times the duration is told, but not drawn. */
const NEAR = 1.5;

/**
 * Draw a batch; `chosen` is the key of the call it is drawn for.
 * @param {Batch} batch
 * @param {{chosen?: string}} [options]
 * @returns {HTMLElement}
 */
export function renderWaterfall(batch, { chosen } = {}) {
  const length = findLength(batch);
  const scale = buildScale(length);
  const readout = h("p", { class: "waterfall-readout", role: "status" }, "Point at a bar, or move over the rows and bars with the arrow keys.");
  const rows = batch.calls.map((call) => new Row(batch, call, scale.max, call.key === chosen, (...words) => replace(readout, ...words)));
  const list = h("ol", { class: "waterfall-rows", onkeydown: (/** @type {Event} */ event) => moveRow(event, rows) }, rows.map((row) => row.element));
  return h(
    "figure",
    { class: "waterfall", "aria-label": `Waterfall of a batch of ${plural(batch.call_count, "call")}` },
    h("figcaption", {}, drawTitle(batch), drawLegend(batch, scale.max)),
    drawAxis(scale),
    list,
    readout,
    h("details", { class: "waterfall-table" }, h("summary", {}, "As a table"), drawTable(batch)),
  );
}

/**
 * The time that the plot shows: until the last call was written, and a deadline if that is near.
 * @param {Batch} batch
 */
function findLength(batch) {
  const ends = batch.calls.flatMap((call) => [call.end_ms ?? 0, ...call.spans.map((span) => span.end_ms)]);
  const end = Math.max(0.1, batch.duration_ms ?? 0, ...ends);
  const deadlines = batch.calls.map((call) => call.deadline_ms ?? Infinity);
  const near = [...deadlines, batch.batch_deadline_ms ?? Infinity].filter((ms) => ms <= end * NEAR);
  return Math.max(end, ...near);
}

/** @param {Batch} batch */
function drawTitle(batch) {
  const missing = batch.call_count - batch.calls.length;
  return h(
    "p",
    { class: "waterfall-title" },
    h("strong", {}, batch.call_count === 1 ? "One call" : `Batch of ${formatCount(batch.call_count)} calls`),
    batch.duration_ms !== null && ` in ${formatDuration(batch.duration_ms)}`,
    missing > 0 && h("span", { class: "muted" }, `, ${formatCount(missing)} without a record of their own`),
    !batch.is_complete && badge("not all are shown", "warn"),
    batch.batch_deadline_ms !== null && h("span", { class: "muted" }, `, to end within ${formatDuration(batch.batch_deadline_ms)}`),
  );
}

/**
 * @param {Batch} batch
 * @param {number} max
 */
function drawLegend(batch, max) {
  const deadlines = [batch.batch_deadline_ms, ...batch.calls.map((call) => call.deadline_ms)];
  const hasDeadline = deadlines.some((ms) => ms !== null && ms <= max);
  const used = new Set(batch.calls.flatMap((call) => call.spans.map((span) => span.kind)));
  return h(
    "ul",
    { class: "waterfall-legend" },
    Object.entries(KINDS)
      .filter(([kind]) => used.has(kind))
      .map(([kind, [title, hint]]) => h("li", { title: hint }, h("span", { class: `swatch span-${kind}` }), title)),
    hasDeadline && h("li", { title: "when the time of a call, or of the batch, would have been over" }, h("span", { class: "swatch-deadline" }), "Deadline"),
  );
}

/** @param {{max: number, marks: number[]}} scale */
function drawAxis({ max, marks }) {
  const axis = h("div", { class: "waterfall-axis", "aria-hidden": "true" });
  const line = h("div", { class: "waterfall-marks" });
  for (const mark of marks) {
    const text = h("span", {}, mark === 0 ? "0" : formatDuration(mark));
    text.style.left = `${(mark / max) * 100}%`;
    line.append(text);
  }
  axis.append(h("span", {}), line, h("span", { class: "number" }, "Budget"));
  return axis;
}

/** A call: its name, its bars, and its share of the budget. */
class Row {
  /**
   * @param {Batch} batch
   * @param {BatchCall} call
   * @param {number} max      of the axis, in milliseconds
   * @param {boolean} isChosen
   * @param {(...words: import("../dom.js").Children[]) => void} tell
   */
  constructor(batch, call, max, isChosen, tell) {
    this.call = call;
    this.tell = tell;
    this.place = -1;
    this.bars = call.spans.map((span) => this.drawBar(span, max));
    this.plot = h(
      "div",
      {
        class: "waterfall-plot",
        tabindex: 0,
        role: "group",
        "aria-label": describeCall(call),
        onfocus: () => this.choose(-1),
        onblur: () => this.mark(-1),
        onpointerleave: () => this.mark(-1),
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.moveBar(event),
      },
      svg(
        "svg",
        { viewBox: `0 0 ${WIDTH} ${ROW}`, preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" },
        this.bars,
        [call.deadline_ms, batch.batch_deadline_ms].map((ms) => drawDeadline(ms, max)),
        call.events.map((event) => drawEvent(event, max)),
      ),
      call.state === "started" && h("span", { class: "muted" }, "running"),
    );
    const name = shorten(call.tool, 40);
    this.element = h(
      "li",
      { class: isChosen ? "chosen" : "", "aria-current": isChosen ? "true" : null },
      h("span", { class: "waterfall-name" }, h("a", { class: "mono", href: buildPath("calls", call.key), title: `${call.tool} · ${call.tool_call_id}` }, name), call.code !== null && badge(formatCode(call.code), call.code === "needs_approval" ? "wait" : "error")),
      this.plot,
      drawBudget(call),
    );
  }

  /**
   * @param {Span} span
   * @param {number} max
   */
  drawBar(span, max) {
    const x = (Math.max(0, span.start_ms) / max) * WIDTH;
    const width = Math.max(LEAST, ((span.end_ms - Math.max(0, span.start_ms)) / max) * WIDTH);
    const isWork = span.kind === "handler";
    return svg("rect", {
      class: `span span-${span.kind in KINDS ? span.kind : "other"}`,
      x: x.toFixed(2),
      width: width.toFixed(2),
      y: isWork ? 1 : 4,
      height: isWork ? ROW - 2 : ROW - 8,
      onpointerenter: () => this.choose(this.call.spans.indexOf(span)),
    });
  }

  /** Tell a bar, or the whole call for -1. @param {number} place */
  choose(place) {
    this.mark(place);
    const span = this.call.spans[place];
    this.tell(h("strong", { class: "mono" }, shorten(this.call.tool, 40)), " ", span === undefined ? describeCall(this.call, false) : describeSpan(span));
  }

  /** @param {number} place */
  mark(place) {
    this.place = place;
    this.bars.forEach((bar, index) => bar.classList.toggle("marked", index === place));
  }

  /** @param {KeyboardEvent} event */
  moveBar(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose(Math.min(this.bars.length - 1, Math.max(-1, this.place + step)));
  }
}

/**
 * Move between rows by the arrow keys.
 * @param {Event} event
 * @param {Row[]} rows
 */
function moveRow(event, rows) {
  if (!(event instanceof KeyboardEvent)) return;
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const from = rows.findIndex((row) => row.plot === event.target);
  const next = step === undefined || from < 0 ? undefined : rows[from + step];
  if (next === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  next.plot.focus();
}

/**
 * @param {number | null} ms
 * @param {number} max
 */
function drawDeadline(ms, max) {
  if (ms === null || ms > max) return null;
  const x = ((ms / max) * WIDTH).toFixed(2);
  return svg("line", { class: "deadline", x1: x, x2: x, y1: 0, y2: ROW, "vector-effect": "non-scaling-stroke" });
}

/**
 * @param {CallEvent} event
 * @param {number} max
 */
function drawEvent(event, max) {
  if (event.at_ms < 0 || event.at_ms > max) return null;
  const x = ((event.at_ms / max) * WIDTH).toFixed(2);
  return svg("line", { class: "event", x1: x, x2: x, y1: 0, y2: 4, "vector-effect": "non-scaling-stroke" });
}

/** How much of its share of the budget a result has used. @param {BatchCall} call */
function drawBudget(call) {
  const words = describeBudget(call);
  if (call.share_chars === null || words === null) return h("span", { class: "waterfall-budget muted" }, "–");
  const used = call.used_chars ?? 0;
  const most = Math.max(call.share_chars, used, 1);
  return h(
    "span",
    { class: "waterfall-budget", title: words, role: "img", "aria-label": words },
    svg(
      "svg",
      { viewBox: "0 0 60 8", preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" },
      svg("rect", { class: "share", x: 0, y: 0, width: (call.share_chars / most) * 60, height: 8 }),
      svg("rect", { class: call.is_truncated ? "used cut" : "used", x: 0, y: 1, width: (used / most) * 60, height: 6 }),
    ),
    call.is_truncated && h("span", { class: "cut-mark", "aria-hidden": "true" }, "✂"),
  );
}

/** @param {BatchCall} call */
function describeBudget(call) {
  if (call.share_chars === null) return null;
  const cut = call.is_truncated ? ", truncated" : "";
  return `${plural(call.used_chars ?? 0, "character")} of a share of ${formatCount(call.share_chars)}${cut}${call.is_spooled ? ", kept in full as an artifact" : ""}`;
}

/** @param {Span} span */
function describeSpan(span) {
  const [title, hint] = KINDS[span.kind] ?? [span.kind, ""];
  const names = span.names.length > 0 ? ` (${span.names.join(", ")})` : "";
  return `${title}${names} ${formatDuration(span.end_ms - span.start_ms)}, from ${formatDuration(span.start_ms)} to ${formatDuration(span.end_ms)}: ${hint}`;
}

/**
 * @param {BatchCall} call
 * @param {boolean} [isNamed]
 */
function describeCall(call, isNamed = true) {
  const name = isNamed ? `${shorten(call.tool, 60)}: ` : "";
  if (call.spans.length === 0) return `${name}${call.state === "started" ? "still running" : "nothing was recorded"}`;
  const total = new Map();
  for (const span of call.spans) total.set(span.kind, (total.get(span.kind) ?? 0) + span.end_ms - span.start_ms);
  const parts = [...total].map(([kind, ms]) => `${(KINDS[kind]?.[0] ?? kind).toLowerCase()} ${formatDuration(ms)}`);
  const deadline = call.deadline_ms === null ? "" : `; deadline at ${formatDuration(call.deadline_ms)}`;
  const attempts = call.attempts > 1 ? `; ${call.attempts} attempts` : "";
  return `${name}${parts.join(", ")}${attempts}${deadline}; ${describeBudget(call) ?? "no share of the budget"}`;
}

/** @param {Batch} batch */
function drawTable(batch) {
  const head = ["Call", "Part", "From", "Took", "Resources"];
  const rows = batch.calls.flatMap((call) => call.spans.map((span) => ({ call, span })));
  return h(
    "div",
    { class: "waterfall-scroll", tabindex: 0, role: "region", "aria-label": "The waterfall as a table" },
    h(
      "table",
      { class: "data" },
      h("thead", {}, h("tr", {}, head.map((title, index) => h("th", { scope: "col", class: index === 2 || index === 3 ? "number" : "" }, title)))),
      h(
        "tbody",
        {},
        rows.map(({ call, span }) =>
          h(
            "tr",
            {},
            h("td", { class: "mono" }, shorten(call.tool, 40)),
            h("td", {}, h("span", { class: `swatch span-${span.kind}` }), KINDS[span.kind]?.[0] ?? span.kind),
            h("td", { class: "number" }, formatDuration(span.start_ms)),
            h("td", { class: "number" }, formatDuration(span.end_ms - span.start_ms)),
            h("td", { class: "mono" }, span.names.join(", ")),
          ),
        ),
      ),
    ),
  );
}
