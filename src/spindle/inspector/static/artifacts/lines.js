// @ts-check
// The tab of lines: the window, the place, jumps, and the hits of the last search.

import { append, h, replace } from "../dom.js";
import { formatBytes, formatCount } from "../format.js";
import { showError } from "../parts.js";
import { setQuery } from "../router.js";
import { LineStore } from "./line_store.js";
import { LineWindow } from "./line_window.js";
import { openPiece } from "./piece.js";

/** @typedef {import("./types.js").Reading} Reading */

/**
 * Draw the lines of an artifact; returns a function that ends it.
 * @param {HTMLElement} panel
 * @param {Reading} reading
 */
export function drawLines(panel, reading) {
  const { facts, finding } = reading;
  let chosen = reading.line;
  const place = h("span", { class: "right mono", role: "status" });
  const problem = h("div", {});
  const store = new LineStore(reading.id, reading.signal, () => {
    replace(problem, store.error !== null && showError(store.error));
    view.schedule();
  });

  /** @param {number} number */
  const drawLine = (number) => {
    const line = store.find(number);
    const row = h("div", { class: `text-line${number === chosen ? " picked" : ""}` });
    const gutter = h("span", { class: "line-number" }, formatCount(number + 1));
    const text = h("span", { class: "line-text", dir: "ltr" });
    if (line !== undefined) {
      const hit = finding.findHit(number);
      const isWhole = hit !== undefined && !hit.is_cut_before && hit.match_end > hit.match_start;
      append(text, isWhole ? [line.text.slice(0, hit.match_start), h("mark", {}, line.text.slice(hit.match_start, hit.match_end)), line.text.slice(hit.match_end)] : [line.text]);
    } else {
      text.classList.add("loading");
    }
    append(row, [gutter, text]);
    if (line !== undefined && line.more_bytes > 0) {
      append(row, [
        h("button", { class: "more", onclick: () => openPiece(reading, line.byte), title: `Read all of line ${number + 1}` }, `${formatBytes(line.more_bytes)} more`),
      ]);
    }
    return row;
  };

  const view = new LineWindow({
    label: "Lines",
    count: facts.line_count,
    draw: drawLine,
    onRange: (first, last) => {
      store.want(first, last);
      const top = Math.floor(view.top);
      const share = facts.line_count > 1 ? Math.min(100, ((top + view.visible) / facts.line_count) * 100) : 100;
      place.textContent = facts.line_count === 0 ? "empty" : `line ${formatCount(Math.min(top + 1, facts.line_count))} of ${formatCount(facts.line_count)} · ${share.toFixed(0)} %`;
    },
    onKey: (event) => {
      if (event.key === "n" || event.key === "N") {
        const hit = finding.step(event.key === "n" ? 1 : -1);
        if (hit !== undefined) jump(hit.line);
        return true;
      }
      return false;
    },
  });

  /** @param {number} line */
  const jump = (line) => {
    chosen = Math.max(0, Math.min(line, facts.line_count - 1));
    reading.line = chosen;
    setQuery({ tab: "lines", line: chosen + 1 });
    view.show(chosen);
  };

  /** @param {string} text */
  const go = async (text) => {
    const percent = /^\s*([\d.]+)\s*%\s*$/.exec(text);
    const number = Number(text.replace(/[\s,_]/g, ""));
    if (percent !== null) {
      const share = Math.min(100, Number(percent[1]));
      const page = await store.load({ percent: share, count: 1 }).catch((error) => void replace(problem, showError(error)));
      if (page?.lines[0]) jump(page.lines[0].number);
    } else if (Number.isFinite(number) && text.trim() !== "") {
      jump(number - 1);
    }
  };

  const jumpTo = h("input", { type: "text", inputmode: "numeric", placeholder: "line or %", "aria-label": "Go to a line or a percentage", class: "jump" });
  const bar = h(
    "form",
    {
      class: "toolbar",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        void go(jumpTo.value);
        view.element.focus();
      },
    },
    h("button", { type: "button", onclick: () => view.move(0), title: "First line (g)" }, "Start"),
    h("button", { type: "button", onclick: () => view.move(view.end), title: "Last line (G)" }, "End"),
    jumpTo,
    h("button", { type: "submit" }, "Go"),
    place,
  );
  append(panel, [bar, problem, view.element]);
  // The height is known once it is in the page.
  requestAnimationFrame(() => {
    if (reading.line > 0) view.show(reading.line);
    view.element.focus({ preventScroll: true });
  });
  return () => view.close();
}
