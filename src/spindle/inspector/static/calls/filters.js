// @ts-check
// The filters above the list of calls.

import { get } from "../api.js";
import { h, replace } from "../dom.js";
import { formatTime, shorten } from "../format.js";
import { debounce } from "../parts.js";

/** @typedef {import("./model.js").Filters} Filters */

/** @type {[label: string, minutes: number][]} */
const RANGES = [
  ["Last 15 minutes", 15],
  ["Last hour", 60],
  ["Last 24 hours", 1440],
  ["Last 7 days", 10080],
];
/** Filters that links of other views set; they are shown as chips. @type {[name: import("./model.js").FilterName, label: string][]} */
const CHIPS = [
  ["session", "Session"],
  ["turn", "Turn"],
  ["artifact", "Artifact"],
  ["id", "Call id"],
  ["from", "From"],
  ["to", "Until"],
];

/**
 * @param {Filters} initial
 * @param {(filters: Filters) => void} onChange
 */
export function drawFilters(initial, onChange) {
  /** @type {Filters} */
  let filters = { ...initial };
  const chips = h("span", { class: "chips" });

  /** @param {Filters} changed */
  const change = (changed) => {
    filters = Object.fromEntries(Object.entries({ ...filters, ...changed }).filter(([, value]) => value));
    drawChips();
    onChange(filters);
  };
  const drawChips = () => {
    replace(
      chips,
      CHIPS.filter(([name]) => filters[name] !== undefined).map(([name, label]) => {
        const value = filters[name] ?? "";
        const shown = name === "from" || name === "to" ? formatTime(value) : shorten(value, 24);
        return h("button", { class: "chip", title: `Remove this filter: ${value}`, onclick: () => change({ [name]: "" }) }, `${label}: ${shown}`, h("span", { "aria-hidden": true }, "×"));
      }),
    );
  };

  const text = h("input", {
    type: "search",
    placeholder: "Search tool, arguments, error, session, id",
    "aria-label": "Search calls",
    maxlength: 1000,
    value: filters.text,
    oninput: debounce(() => change({ text: text.value }), 300),
  });
  const tools = h("datalist", { id: "call-tools" });
  const tool = h("input", { list: "call-tools", class: "tool", placeholder: "Any tool", "aria-label": "Tool", value: filters.tool, onchange: () => change({ tool: tool.value.trim() }) });
  const state = choose("State", [["", "Any state"], ["started", "Running"], ["finished", "Finished"], ["interrupted", "Interrupted"]], filters.state ?? "", (value) => change({ state: value }));
  const result = choose("Result", [["", "Any result"], ["outcome:ok", "Succeeded"], ["outcome:error", "Failed"]], getResult(filters), (value) => {
    const [name, rest] = [value.slice(0, value.indexOf(":")), value.slice(value.indexOf(":") + 1)];
    change({ outcome: name === "outcome" ? rest : "", code: name === "code" ? rest : "" });
  });
  const range = choose("Time", [["", "Any time"], ...RANGES.map(([label, minutes]) => /** @type {[string, string]} */ ([String(minutes), label]))], "", (value) => {
    change({ from: value === "" ? "" : new Date(Date.now() - Number(value) * 60_000).toISOString(), to: "" });
    range.value = "";
  });

  void get("/calls/filters")
    .then((/** @type {{tools: string[], codes: string[]}} */ known) => {
      replace(tools, known.tools.map((name) => h("option", { value: name })));
      const codes = new Set([...known.codes, ...(filters.code === undefined ? [] : [filters.code])]);
      for (const code of codes) result.appendChild(h("option", { value: `code:${code}` }, `Failed: ${code.replaceAll("_", " ")}`));
      result.value = getResult(filters);
    })
    .catch(() => null);
  drawChips();
  return h("div", { class: "toolbar call-filters", role: "search" }, text, tool, tools, state, result, range, chips);
}

/** @param {Filters} filters */
function getResult(filters) {
  if (filters.code !== undefined) return `code:${filters.code}`;
  return filters.outcome === undefined ? "" : `outcome:${filters.outcome}`;
}

/**
 * @param {string} label
 * @param {[value: string, text: string][]} options
 * @param {string} selected
 * @param {(value: string) => void} onChange
 */
function choose(label, options, selected, onChange) {
  const field = h(
    "select",
    { "aria-label": label, onchange: () => onChange(field.value) },
    options.map(([value, text]) => h("option", { value, selected: value === selected }, text)),
  );
  return field;
}
