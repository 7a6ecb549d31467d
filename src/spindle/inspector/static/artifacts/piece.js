// @ts-check
// One long line in pieces: a dialog that reads on and back, from any byte.

import { get } from "../api.js";
import { append, h, replace } from "../dom.js";
import { formatBytes, formatCount } from "../format.js";
import { showError } from "../parts.js";

/** @typedef {import("./types.js").Piece} Piece */

/**
 * Read the line at a byte.
 * @param {import("./types.js").Reading} reading
 * @param {number} byte
 */
export function openPiece(reading, byte) {
  const dialog = h("dialog", { class: "piece", "aria-label": "A long line" });
  const title = h("h2", {});
  const place = h("p", { class: "hint", role: "status" });
  const text = h("pre", { class: "wrap", tabindex: 0, "aria-label": "A part of the line" });
  const back = h("button", {}, "Previous part");
  const on = h("button", {}, "Next part");
  const share = h("input", { type: "range", min: 0, max: 1000, value: 0, "aria-label": "Place in the line" });

  /** @param {number} at */
  const show = async (at) => {
    try {
      /** @type {Piece} */
      const piece = await get("/artifacts/piece", { id: reading.id, byte: at }, reading.signal);
      const length = piece.line_end - piece.line_start;
      title.textContent = `Line ${formatCount(piece.line + 1)}, ${formatBytes(length)}`;
      place.textContent = `Bytes ${formatCount(piece.start - piece.line_start)} to ${formatCount(piece.end - piece.line_start)} of ${formatCount(length)}`;
      replace(text, piece.text);
      text.scrollTop = 0;
      back.disabled = piece.previous === null;
      on.disabled = piece.next === null;
      back.onclick = () => void show(piece.previous ?? at);
      on.onclick = () => void show(piece.next ?? at);
      share.value = String(length === 0 ? 0 : Math.round(((piece.start - piece.line_start) / length) * 1000));
      share.onchange = () => void show(piece.line_start + Math.floor((Math.min(Number(share.value), 999) / 1000) * length));
    } catch (error) {
      replace(text, showError(error));
    }
  };

  const close = () => {
    dialog.close();
    dialog.remove();
  };
  append(dialog, [title, place, share, text, h("div", { class: "buttons" }, back, on, h("button", { onclick: close }, "Close"))]);
  dialog.addEventListener("cancel", close);
  reading.signal.addEventListener("abort", close, { once: true });
  document.body.appendChild(dialog);
  dialog.showModal();
  void show(byte);
}
