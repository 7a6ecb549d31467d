// @ts-check
// The blocks of a Markdown text as elements: only the node types listed here, and only text inside of them.

import { append, h } from "../dom.js";

/**
 * A node, named as in mdast.
 * @typedef {object} MdNode
 * @property {string} type
 * @property {MdNode[]} [children]
 * @property {string} [value]
 * @property {number} [depth]
 * @property {boolean} [ordered]
 * @property {number} [start]
 * @property {boolean} [checked]
 * @property {string | null} [lang]
 * @property {string} [url]
 * @property {string} [alt]
 * @property {(string | null)[]} [align]
 * @property {boolean} [truncated]
 */

/** @typedef {import("../dom.js").Child} Child */

/** @type {Record<number, "h2" | "h3" | "h4" | "h5" | "h6">} */
const HEADINGS = { 1: "h2", 2: "h3", 3: "h4", 4: "h5", 5: "h6", 6: "h6" };

/**
 * @param {MdNode[]} nodes
 * @returns {Child[]}
 */
export function drawBlocks(nodes) {
  return nodes.map((node) => drawNode(node));
}

/** @param {MdNode} node */
const inside = (node) => (node.children ?? []).map((child) => drawNode(child));

/** @type {Record<string, (node: MdNode) => Child>} */
const DRAW = {
  text: (node) => node.value,
  break: () => h("br"),
  thematicBreak: () => h("hr"),
  heading: (node) => h(HEADINGS[node.depth ?? 6] ?? "h6", { class: `md-h${node.depth}` }, ...inside(node)),
  paragraph: (node) => h("p", {}, ...inside(node)),
  blockquote: (node) => h("blockquote", {}, ...inside(node)),
  emphasis: (node) => h("em", {}, ...inside(node)),
  strong: (node) => h("strong", {}, ...inside(node)),
  delete: (node) => h("s", {}, ...inside(node)),
  inlineCode: (node) => h("code", {}, node.value),
  code: (node) => h("pre", { class: "md-code", tabindex: 0, "aria-label": node.lang ? `Code, ${node.lang}` : "Code" }, node.value),
  html: (node) => h("code", { class: "md-html", title: "HTML, not rendered" }, node.value),
  yaml: (node) => h("pre", { class: "md-code", tabindex: 0, "aria-label": "Frontmatter" }, node.value),
  list: (node) => (node.ordered ? h("ol", { start: node.start }, ...inside(node)) : h("ul", {}, ...inside(node))),
  listItem: (node) => h("li", {}, node.checked !== undefined && h("span", { class: "md-check" }, node.checked ? "☑ " : "☐ "), ...inside(node)),
  link: (node) => h("span", { class: "md-link" }, ...inside(node), drawTarget(node)),
  image: (node) => h("span", { class: "md-link" }, `[image: ${node.alt || "no text"}]`, drawTarget(node)),
  table: (node) => drawTable(node),
  cut: () => h("p", { class: "notice" }, "The rest of this line is too long to be rendered; the tab of lines has all of it."),
};

/**
 * @param {MdNode} node
 * @returns {Child}
 */
function drawNode(node) {
  const drawn = DRAW[node.type]?.(node) ?? h("span", {}, node.value, ...inside(node));
  if (!node.truncated) return drawn;
  return h("div", {}, drawn, h("p", { class: "notice" }, "This block is too large to be rendered; the tab of lines has all of it."));
}

/**
 * The target of a link, as text, unless it is the text of the link.
 * @param {MdNode} node
 */
function drawTarget(node) {
  const shown = node.children?.map((child) => child.value ?? "").join("");
  return node.url && node.url !== shown ? h("span", { class: "md-target" }, `<${node.url}>`) : null;
}

/** @param {MdNode} node */
function drawTable(node) {
  const [head, ...rows] = node.children ?? [];
  /** @param {MdNode} row @param {"th" | "td"} tag */
  const drawRow = (row, tag) =>
    h("tr", {}, (row.children ?? []).map((cell, column) => h(tag, { class: `align-${node.align?.[column] ?? "left"}` }, ...inside(cell))));
  const table = h("table", { class: "data" });
  append(table, [head && h("thead", {}, drawRow(head, "th")), h("tbody", {}, rows.map((row) => drawRow(row, "td")))]);
  return h("div", { class: "md-table", role: "region", tabindex: 0, "aria-label": "Table" }, table);
}
