// @ts-check
// The reader of one artifact: its header, and the tabs that fit it.

import { get, isAborted } from "../api.js";
import { append, h, isTyping, replace } from "../dom.js";
import { formatBytes, formatCount, formatExactTime, plural } from "../format.js";
import { backControl, badge, facts as drawFacts, load, tabs, toast } from "../parts.js";
import { buildPath, setQuery } from "../router.js";
import { drawHex } from "./hex.js";
import { drawJson } from "./json.js";
import { drawLines } from "./lines.js";
import { drawMarkdown } from "./markdown.js";
import { drawSearch, Finding } from "./search.js";
import { drawTable } from "./table.js";

/** @typedef {import("./types.js").Reading} Reading */
/** @typedef {import("./types.js").Facts} Facts */

/**
 * Show an artifact; returns a function that ends it.
 * @param {HTMLElement} target
 * @param {import("../router.js").Place & {id: string}} place
 */
export function openReader(target, place) {
  const left = new AbortController();
  let close = () => {};
  /** @param {import("./types.js").Entry & {facts: Facts}} entry */
  const draw = (entry) => {
    const drawn = drawReader(place, entry, left.signal);
    close = drawn.close;
    return drawn.element;
  };
  void load(target, get("/artifacts/facts", { id: place.id }, left.signal), draw);
  return () => {
    left.abort();
    close();
  };
}

/**
 * @param {import("../router.js").Place & {id: string}} place
 * @param {import("./types.js").Entry & {facts: Facts}} entry
 * @param {AbortSignal} signal
 */
function drawReader(place, entry, signal) {
  const { id, query } = place;
  const { facts } = entry;
  const finding = new Finding();
  finding.pattern = query.get("q") ?? "";
  finding.flags = query.get("flags") === "i" ? "i" : "";
  finding.context = Number(query.get("context")) || 0;
  if (finding.pattern !== "") finding.next = 0;
  /** @type {Reading} */
  const reading = {
    id,
    facts,
    signal,
    finding,
    line: Math.max(0, (Number(query.get("line")) || 1) - 1),
    choose: (tab) => {
      const button = element.querySelector(`[data-tab="${tab}"]`);
      if (button instanceof HTMLElement) button.click();
    },
  };
  let end = () => {};
  /** @param {(panel: HTMLElement) => void | (() => void)} draw */
  const draws = (draw) => (/** @type {HTMLElement} */ panel) => {
    end();
    panel.classList.add("reader-panel");
    end = draw(panel) ?? (() => {});
  };
  const all = [
    { id: "lines", title: "Lines", draw: draws((panel) => drawLines(panel, reading)) },
    { id: "grep", title: "Grep", draw: draws((panel) => drawSearch(panel, reading)) },
    { id: "json", title: "JSON", draw: draws((panel) => drawJson(panel, reading, query.get("path") ?? "")) },
    { id: "markdown", title: "Markdown", draw: draws((panel) => drawMarkdown(panel, reading)) },
    { id: "table", title: "Table", draw: draws((panel) => drawTable(panel, reading, query.get("sql") ?? "")) },
    { id: "hex", title: "Bytes", draw: draws((panel) => drawHex(panel, reading)) },
    { id: "facts", title: "Facts", draw: draws((panel) => append(panel, [drawAbout(entry, signal)])) },
  ];
  const isMedia = /^(image|audio|video)\/(?!svg)/.test(facts.media_type);
  const best = isMedia ? "facts" : facts.best_view;
  const asked = query.get("tab");
  const selected = all.some((tab) => tab.id === asked) ? (asked ?? best) : best;
  const name = id.slice(id.lastIndexOf("/") + 1) || id;
  const header = h(
    "header",
    { class: "reader-head" },
    backControl(buildPath("artifacts")),
    h("h1", { class: "mono", title: id }, name),
    h("div", { class: "badges" }, badge(formatBytes(facts.byte_length)), !facts.is_binary && badge(plural(facts.line_count, "line")), badge(facts.media_type, facts.is_binary ? "warn" : "quiet")),
    h("button", { onclick: () => void download(id, signal) }, "Download"),
  );
  const tabbed = tabs("Ways to read", all, { selected, onSelect: (tab) => setQuery({ tab, line: tab === "lines" && reading.line > 0 ? reading.line + 1 : null }) });
  const element = h("div", { class: "reader" }, header, tabbed);
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "/" || isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    reading.choose("grep");
  };
  document.addEventListener("keydown", onKey, true);
  return {
    element,
    close: () => {
      document.removeEventListener("keydown", onKey, true);
      end();
    },
  };
}

/**
 * Save an artifact as a file. The browser writes it itself, from an address that is valid for a minute: a large one would
 * not fit into the memory of the page.
 * @param {string} id
 * @param {AbortSignal} signal
 */
async function download(id, signal) {
  try {
    const { path } = await get("/artifacts/address", { id }, signal);
    h("a", { href: path, download: "" }).click();
  } catch (error) {
    if (!isAborted(error)) toast(error instanceof Error ? error.message : String(error), "error");
  }
}

/**
 * @param {import("./types.js").Entry & {facts: Facts}} entry
 * @param {AbortSignal} signal
 */
function drawAbout(entry, signal) {
  const { id, facts, turn_id: turn } = entry;
  const body = h("div", { class: "reader-body pad" });
  const made = h("span", {}, "…");
  /** @param {{calls: {key: string, tool: string, started_at: string}[]}} found */
  const drawCalls = ({ calls }) =>
    calls.length === 0
      ? "no call among the last ones of the journal"
      : calls.map((call) => h("div", {}, h("a", { href: buildPath("calls", call.key) }, call.tool), ` at ${formatExactTime(call.started_at)}`));
  void load(made, get("/artifacts/calls", { id }, signal), drawCalls);
  replace(
    body,
    drawFacts([
      ["Id", h("code", {}, id)],
      ["Stored", formatExactTime(entry.created_at)],
      ["Size", `${formatBytes(facts.byte_length)} (${formatCount(facts.byte_length)} bytes)`],
      ["Lines", formatCount(facts.line_count)],
      ["Looks like", facts.media_type],
      ["Image", facts.width !== null && `${formatCount(facts.width)} × ${formatCount(facts.height)} pixels, not shown: media of tools is never loaded`],
      ["Turn", turn !== null && h("a", { href: buildPath("turns", turn) }, turn)],
      ["Made by", made],
      ["Read it with", h("code", {}, `spindle spool cat ${id}`)],
    ]),
  );
  return body;
}
