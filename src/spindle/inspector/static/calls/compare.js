// @ts-check
// Two calls side by side: arguments and results as a difference of lines.

import { h } from "../dom.js";
import { formatDuration, formatExactTime, formatCount } from "../format.js";
import { backControl, badge, section } from "../parts.js";
import { buildPath } from "../router.js";
import { describeState } from "./model.js";

/** @typedef {import("./model.js").CallComparison} CallComparison */
/** @typedef {import("./model.js").CallRow} CallRow */
/** @typedef {import("./model.js").DiffPart} DiffPart */
/** @typedef {import("./model.js").DiffRow} DiffRow */

const TITLES = { arguments: "Arguments", result: "Result" };

/**
 * @param {CallComparison} comparison
 * @param {{query: Record<string, string>, close: () => void}} view
 */
export function drawComparison({ left, right, parts }, { query, close }) {
  return h(
    "article",
    { class: "detail comparison", "aria-label": "Comparison of two calls" },
    h(
      "header",
      {},
      backControl(close),
      h("h1", {}, "Two calls side by side"),
      h("a", { class: "button", href: buildPath("calls", left.key, { ...query, compare: right.key }) }, "Swap"),
      h("button", { class: "quiet close", onclick: close, title: "Close (Esc)", "aria-label": "Close" }, "×"),
    ),
    h("div", { class: "compared" }, drawSide("Left", left, query), drawSide("Right", right, query)),
    parts.map(drawPart),
  );
}

/**
 * @param {string} title
 * @param {CallRow} call
 * @param {Record<string, string>} query
 */
function drawSide(title, call, query) {
  const [state, tone] = describeState(call);
  return h(
    "div",
    { class: "side" },
    h("h3", {}, title),
    h("p", {}, h("a", { class: "mono", href: buildPath("calls", call.key, query) }, call.tool), " ", badge(state, tone)),
    h("p", { class: "hint" }, formatExactTime(call.started_at), call.duration_ms === null ? "" : ` · ${formatDuration(call.duration_ms)}`),
  );
}

/** @param {DiffPart} part */
function drawPart(part) {
  if (part.is_same) return section(TITLES[part.name], h("p", { class: "hint" }, "The same in both calls."));
  if (part.is_cut && part.lines.every(({ kind }) => kind === "same" || kind === "folded")) {
    return section(TITLES[part.name], h("p", { class: "notice" }, "The same as far as they were compared. The rest is too long to be compared, or was deleted."));
  }
  return section(TITLES[part.name], [
    !part.is_aligned && h("p", { class: "notice" }, "These texts differ too much to be aligned line by line."),
    h(
      "div",
      { class: "diff", role: "table", "aria-label": `Difference of the ${TITLES[part.name].toLowerCase()}`, tabindex: 0 },
      pairLines(part.lines).map(([one, two]) => drawPair(one, two)),
    ),
    part.is_cut && h("p", { class: "notice" }, "The rest is too long to be compared and shown, or was deleted."),
  ]);
}

/**
 * Put removed lines beside the added ones that replace them.
 * @param {DiffRow[]} lines
 * @returns {[DiffRow | null, DiffRow | null][]}
 */
export function pairLines(lines) {
  /** @type {[DiffRow | null, DiffRow | null][]} */
  const pairs = [];
  let at = 0;
  while (at < lines.length) {
    const line = /** @type {DiffRow} */ (lines[at]);
    if (line.kind === "same" || line.kind === "folded") {
      pairs.push([line, line]);
      at += 1;
      continue;
    }
    /** @type {DiffRow[]} */
    const removed = [];
    /** @type {DiffRow[]} */
    const added = [];
    for (; at < lines.length && (lines[at]?.kind === "removed" || lines[at]?.kind === "added"); at += 1) {
      const each = /** @type {DiffRow} */ (lines[at]);
      (each.kind === "removed" ? removed : added).push(each);
    }
    for (let place = 0; place < Math.max(removed.length, added.length); place += 1) {
      pairs.push([removed[place] ?? null, added[place] ?? null]);
    }
  }
  return pairs;
}

/**
 * @param {DiffRow | null} one
 * @param {DiffRow | null} two
 */
function drawPair(one, two) {
  if (one?.kind === "folded") {
    return h("div", { class: "diff-row folded", role: "row" }, h("span", { role: "cell" }, `${formatCount(one.count)} unchanged ${one.count === 1 ? "line" : "lines"}`));
  }
  const range = one?.kind === "removed" && two !== null ? findChange(one.text, two.text) : null;
  return h(
    "div",
    { class: "diff-row", role: "row" },
    drawCell(one, one?.left ?? null, one?.kind === "removed" ? "removed" : "", range),
    drawCell(two, two?.right ?? null, two?.kind === "added" ? "added" : "", range),
  );
}

/**
 * Find where two lines differ: how many characters are the same before and after; null if hardly any are.
 * @param {string} one
 * @param {string} two
 * @returns {[before: number, after: number] | null}
 */
export function findChange(one, two) {
  const shortest = Math.min(one.length, two.length);
  let before = 0;
  while (before < shortest && one[before] === two[before]) before += 1;
  let after = 0;
  while (after < shortest - before && one[one.length - 1 - after] === two[two.length - 1 - after]) after += 1;
  return before + after > 3 ? [before, after] : null;
}

/**
 * @param {DiffRow | null} line
 * @param {number | null} number
 * @param {string} kind
 * @param {[before: number, after: number] | null} range
 */
function drawCell(line, number, kind, range) {
  const text = line?.text ?? "";
  const isMarked = range !== null && kind !== "";
  const [before, after] = range ?? [0, 0];
  const parts = isMarked ? [text.slice(0, before), h("mark", {}, text.slice(before, text.length - after)), text.slice(text.length - after)] : [text];
  return h(
    "span",
    { class: `diff-cell ${line === null ? "missing" : kind}`, role: "cell" },
    h("span", { class: "line-number", "aria-hidden": true }, number ?? ""),
    h("span", { class: "line-text" }, kind !== "" && h("span", { class: "sr-only" }, `${kind} `), parts),
  );
}
