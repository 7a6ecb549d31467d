// @ts-check
// Where the context went: one bar, and what each part of it is.

import { h } from "../dom.js";
import { formatCount, plural } from "../format.js";
import { namePart } from "./words.js";

/** @typedef {import("./words.js").ContextPart} ContextPart */

/** @param {ContextPart[]} parts */
export function drawContext(parts) {
  const total = parts.reduce((sum, part) => sum + part.tokens, 0);
  if (total === 0) return h("p", { class: "muted" }, "Nothing is known about the context of this turn.");
  return h(
    "div",
    { class: "context" },
    drawBar(parts, total),
    drawLegend(parts, total),
    h("details", { id: "context-parts" }, h("summary", {}, `All parts: about ${plural(total, "token")}`), drawTable(parts, total)),
  );
}

/**
 * @param {ContextPart[]} parts
 * @param {number} total
 */
function drawBar(parts, total) {
  const label = parts.slice(0, 5).map((part) => `${namePart(part)} ${formatShare(part.tokens, total)}`).join(", ");
  const bar = h("div", { class: "context-bar", role: "img", "aria-label": `About ${formatCount(total)} tokens: ${label}` });
  for (const part of parts) {
    const piece = h("span", { class: `piece kind-${part.kind}`, title: `${namePart(part)}: about ${plural(part.tokens, "token")}` });
    piece.style.flexGrow = String(part.tokens);
    bar.appendChild(piece);
  }
  return bar;
}

/**
 * @param {ContextPart[]} parts
 * @param {number} total
 */
function drawLegend(parts, total) {
  const large = parts.filter((part, index) => index < 8 && (index < 3 || part.tokens / total >= 0.01));
  return h(
    "ul",
    { class: "context-legend" },
    large.map((part) => h("li", {}, h("span", { class: `swatch kind-${part.kind}` }), namePart(part), h("span", { class: "muted number" }, formatShare(part.tokens, total)))),
  );
}

/**
 * @param {ContextPart[]} parts
 * @param {number} total
 */
function drawTable(parts, total) {
  const rows = parts.map((part) =>
    h(
      "tr",
      {},
      h("td", {}, h("span", { class: `swatch kind-${part.kind}` }), namePart(part)),
      h("td", { class: "number" }, formatCount(part.count)),
      h("td", { class: "number" }, formatCount(part.chars)),
      h("td", { class: "number" }, formatCount(part.tokens)),
      h("td", { class: "number" }, formatShare(part.tokens, total)),
    ),
  );
  const head = ["Part", "Count", "Characters", "Tokens, about", "Share"].map((name, index) => h("th", { class: index ? "number" : "", scope: "col" }, name));
  return h("div", { class: "context-table" }, h("table", { class: "data" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

/**
 * @param {number} part
 * @param {number} total
 */
function formatShare(part, total) {
  const share = (100 * part) / total;
  return share < 1 ? "<1 %" : `${share.toFixed(0)} %`;
}
