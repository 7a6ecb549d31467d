// @ts-check
// The tab of Markdown: the outline, and the text in parts. Links, images and HTML are shown as text.

import { get, isAborted } from "../api.js";
import { append, h, replace } from "../dom.js";
import { formatCount } from "../format.js";
import { showError } from "../parts.js";
import { drawBlocks } from "./markdown_nodes.js";

/** @typedef {import("./types.js").Reading} Reading */
/** @typedef {{depth: number, text: string, start_line: number}} Heading */
/** @typedef {{headings: Heading[], is_complete: boolean}} Outline */
/** @typedef {{nodes: import("./markdown_nodes.js").MdNode[], start_line: number, next_line: number | null, line_count: number}} Page */

/**
 * Draw an artifact as rendered Markdown.
 * @param {HTMLElement} panel
 * @param {Reading} reading
 */
export function drawMarkdown(panel, reading) {
  const outline = h("nav", { class: "md-outline", "aria-label": "Outline" });
  const text = h("div", { class: "md-text" });
  const back = h("button", { disabled: true }, "Previous part");
  const on = h("button", { disabled: true }, "Next part");
  const place = h("span", { class: "right mono", role: "status" });
  const body = h("div", { class: "reader-body md", role: "region", tabindex: 0, "aria-label": "Markdown" }, text);
  const raw = h("button", { onclick: () => reading.choose("lines"), title: "Show these lines as they are" }, "Raw");
  /** @type {number[]} */
  const before = [];
  let start = 0;

  /** @param {number} line */
  const show = async (line) => {
    body.setAttribute("aria-busy", "true");
    try {
      /** @type {Page} */
      const page = await get("/artifacts/markdown", { id: reading.id, line }, reading.signal);
      start = page.start_line;
      reading.line = start;
      replace(text, drawBlocks(page.nodes));
      body.scrollTop = 0;
      const last = page.next_line ?? page.line_count;
      place.textContent = `lines ${formatCount(start + 1)} to ${formatCount(last)} of ${formatCount(page.line_count)}`;
      back.disabled = start === 0;
      on.disabled = page.next_line === null;
      on.onclick = () => {
        before.push(start);
        void show(page.next_line ?? start);
      };
    } catch (error) {
      if (!isAborted(error)) replace(text, showError(error));
    } finally {
      body.removeAttribute("aria-busy");
    }
  };
  back.onclick = () => void show(before.pop() ?? 0);

  const showOutline = async () => {
    try {
      /** @type {Outline} */
      const found = await get("/artifacts/outline", { id: reading.id }, reading.signal);
      outline.hidden = found.headings.length === 0;
      append(
        outline,
        found.headings.map((heading) =>
          h(
            "button",
            {
              class: `quiet depth-${heading.depth}`,
              onclick: () => {
                before.push(start);
                void show(heading.start_line);
              },
            },
            heading.text || "(no title)",
          ),
        ),
      );
      if (!found.is_complete) append(outline, [h("p", { class: "hint" }, "Later headings are not listed.")]);
    } catch (error) {
      if (!isAborted(error)) replace(outline, showError(error));
    }
  };
  append(panel, [h("div", { class: "toolbar" }, back, on, raw, place), h("div", { class: "md-columns" }, outline, body)]);
  void show(0);
  void showOutline();
}
