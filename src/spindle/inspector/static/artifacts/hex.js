// @ts-check
// The tab of bytes: rows of sixteen as hexadecimal digits and characters, in pages.

import { get, isAborted } from "../api.js";
import { append, h, replace } from "../dom.js";
import { formatCount } from "../format.js";
import { showError } from "../parts.js";

/** @typedef {import("./types.js").Reading} Reading */

const ROW = 16;
const PAGE = 4096;

/**
 * Draw the bytes of an artifact.
 * @param {HTMLElement} panel
 * @param {Reading} reading
 */
export function drawHex(panel, reading) {
  const size = reading.facts.byte_length;
  const text = h("pre", { class: "reader-body hex", role: "region", tabindex: 0, "aria-label": "Bytes of the artifact" });
  const place = h("span", { class: "right mono", role: "status" });
  const jump = h("input", { type: "text", placeholder: "offset or %", "aria-label": "Go to an offset or a percentage", title: "An offset such as 4096 or 0x1000, or a percentage such as 50 %", class: "jump" });
  const back = h("button", { type: "button", onclick: () => void show(start - PAGE) }, "Previous");
  const on = h("button", { type: "button", onclick: () => void show(start + PAGE) }, "Next");
  let start = 0;

  /** @param {number} byte */
  const show = async (byte) => {
    try {
      /** @type {{start: number, data: string}} */
      const page = await get("/artifacts/bytes", { id: reading.id, byte: Math.max(0, Math.floor(byte)), count: PAGE }, reading.signal);
      start = page.start;
      replace(text, toRows(page.start, page.data));
      text.scrollTop = 0;
      const end = start + page.data.length / 2;
      place.textContent = `bytes ${formatCount(start)} to ${formatCount(end)} of ${formatCount(size)}`;
      back.disabled = start === 0;
      on.disabled = end >= size;
    } catch (error) {
      if (!isAborted(error)) replace(text, showError(error));
    }
  };
  const form = h(
    "form",
    {
      class: "toolbar",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        const given = jump.value.trim();
        const offset = given.endsWith("%") ? (Number(given.slice(0, -1)) / 100) * size : Number(given.replace(/[\s,_]/g, ""));
        if (Number.isFinite(offset)) void show(Math.min(offset, size));
      },
    },
    back,
    on,
    h("button", { type: "button", onclick: () => void show(size) }, "End"),
    jump,
    h("button", { type: "submit" }, "Go"),
    place,
  );
  append(panel, [form, text]);
  void show(0);
}

/**
 * @param {number} start
 * @param {string} data
 */
function toRows(start, data) {
  const rows = [];
  for (let at = 0; at < data.length; at += 2 * ROW) {
    const digits = data.slice(at, at + 2 * ROW).match(/../g) ?? [];
    const shown = digits.map((pair) => {
      const code = parseInt(pair, 16);
      return code >= 32 && code < 127 ? String.fromCharCode(code) : "·";
    });
    const halves = [digits.slice(0, 8).join(" "), digits.slice(8).join(" ")].join("  ");
    rows.push(`${(start + at / 2).toString(16).padStart(8, "0")}  ${halves.padEnd(49)} ${shown.join("")}`);
  }
  return rows.join("\n");
}
