// @ts-check
// The list of tools: search, filters, and a row for each tool.

import { get } from "../api.js";
import { h, replace } from "../dom.js";
import { formatCount, plural } from "../format.js";
import { VirtualList } from "../list.js";
import { badge, debounce, showError } from "../parts.js";
import { buildPath, getPlace, go, setQuery } from "../router.js";

/**
 * @typedef {object} ToolRow
 * @property {string} name
 * @property {string | null} title
 * @property {string} description
 * @property {"kit" | "module" | "server" | "api"} origin
 * @property {string} source
 * @property {string | null} toolset
 * @property {string | null} trust
 * @property {boolean} is_read_only
 * @property {boolean} is_destructive
 * @property {boolean} is_idempotent
 * @property {boolean} needs_approval
 * @property {boolean} is_available
 * @property {string[]} capabilities
 * @property {{state: string, reason: string | null}} lock
 * @property {Record<string, number> | null} prices
 * @property {Record<string, number> | null} findings
 */

const MAX_PAGES = 20;
export const ORIGINS = /** @type {Record<string, string>} */ ({ kit: "kit", module: "module", server: "server", api: "API" });

/** @type {[value: string, label: string, test: (tool: ToolRow) => boolean][]} */
const STATES = [
  ["read-only", "Read-only", (tool) => tool.is_read_only],
  ["destructive", "Destructive", (tool) => tool.is_destructive],
  ["approval", "Needs approval", (tool) => tool.needs_approval],
  ["unavailable", "Not available", (tool) => !tool.is_available],
  ["errors", "Lint errors", (tool) => (tool.findings?.["error"] ?? 0) > 0],
  ["findings", "Any lint finding", (tool) => Object.keys(tool.findings ?? {}).length > 0],
  ["locked", "Locked", (tool) => tool.lock.state === "locked"],
  ["unlocked", "Not locked", (tool) => tool.lock.state === "unlocked"],
  ["quarantined", "In quarantine", (tool) => isWithheld(tool)],
];

/** @param {ToolRow} tool */
export function isWithheld(tool) {
  return tool.lock.state === "changed" || tool.lock.state === "quarantined";
}

/** The list, its filters, and the tools it has loaded. */
export class ToolList {
  /** @param {() => void} onLoad */
  constructor(onLoad) {
    this.onLoad = onLoad;
    /** @type {ToolRow[]} */
    this.tools = [];
    /** @type {string[]} */
    this.dialects = [];
    this.version = 0;
    /** @type {Record<string, string>} */
    this.wanted = {};
    for (const name of ["q", "origin", "toolset", "trust", "state"]) this.wanted[name] = getPlace().query.get(name) ?? "";
    this.search = h("input", { type: "search", placeholder: "Search tools", "aria-label": "Search tools", value: this.wanted["q"], autocomplete: "off" });
    this.search.addEventListener("input", debounce(() => this.setFilter("q", this.search.value), 80));
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") this.list.element.focus();
      else if (event.key === "Enter") {
        this.setFilter("q", this.search.value); // it may not be applied yet
        this.list.open(0);
        if (this.list.items.length > 0) this.list.element.focus();
      }
    });
    this.selects = h("div", { class: "filters" });
    this.total = h("span", { class: "muted total" });
    this.dialect = h("select", { "aria-label": "Price in the tokens of", title: "How many tokens the definition of each tool takes, in this dialect" });
    this.dialect.addEventListener("change", () => this.draw(true));
    /** @type {VirtualList<ToolRow>} */
    this.list = new VirtualList({
      label: "Tools",
      rowHeight: 28,
      phoneRowHeight: 48,
      draw: (tool) => this.drawRow(tool),
      getKey: (tool) => tool.name,
      getVersion: (tool) => `${this.version} ${JSON.stringify(tool)}`,
      onOpen: (tool) => go(buildPath("tools", tool.name, this.wanted)),
      empty: "No tool matches.",
    });
    this.problem = h("div", {});
    this.element = h(
      "div",
      {},
      h("div", { class: "toolbar search-bar" }, this.search, this.total),
      h("div", { class: "toolbar filter-bar" }, this.selects, this.dialect),
      this.problem,
      this.list.element,
    );
    this.drawFilters();
  }

  close() {
    this.list.close();
  }

  /** Read all tools, or read them again. */
  async load() {
    /** @type {ToolRow[]} */
    const found = [];
    try {
      /** @type {string | null} */
      let cursor = null;
      for (let page = 0; page < MAX_PAGES; page += 1) {
        /** @type {any} */
        const answer = await get("/tools", { cursor });
        found.push(...answer.tools);
        this.dialects = answer.dialects;
        this.totals = answer.totals;
        this.isChecked = answer.is_checked;
        cursor = answer.next_cursor;
        if (cursor === null) break;
      }
      this.tools = found;
      replace(this.problem);
    } catch (error) {
      replace(this.problem, showError(error));
      return;
    }
    this.drawFilters();
    this.draw(false);
    this.onLoad();
  }

  /**
   * @param {string} name
   * @param {string} value
   */
  setFilter(name, value) {
    this.wanted[name] = value;
    setQuery(this.wanted);
    this.draw(false);
  }

  drawFilters() {
    const chosen = this.dialect.value || "mcp";
    const dialects = this.dialects.length > 0 ? this.dialects : [chosen]; // before the first answer
    replace(this.dialect, dialects.map((each) => h("option", { value: each }, `${each} tokens`)));
    this.dialect.value = dialects.includes(chosen) ? chosen : (dialects[0] ?? "");
    const origins = unique(this.tools.map((tool) => `${tool.origin}:${tool.source}`));
    const kinds = unique(this.tools.map((tool) => tool.origin));
    /** @type {[string, string][]} */
    const choices = kinds.map((kind) => [kind, `All of ${ORIGINS[kind]}`]);
    for (const each of origins) choices.push([each, each.replace(":", " ")]);
    replace(
      this.selects,
      this.drawSelect("origin", "Origin", choices),
      this.drawSelect("toolset", "Toolset", unique(this.tools.map((tool) => tool.toolset)).map((each) => [each, each])),
      this.drawSelect("trust", "Trust", unique(this.tools.map((tool) => tool.trust)).map((each) => [each, each])),
      this.drawSelect("state", "State", STATES.filter(([value, , test]) => value === this.wanted["state"] || this.tools.some(test)).map(([value, label]) => [value, label])),
    );
  }

  /**
   * @param {string} name
   * @param {string} label
   * @param {[value: string, text: string][]} choices
   */
  drawSelect(name, label, choices) {
    const select = h("select", { "aria-label": `Filter by ${label.toLowerCase()}` }, h("option", { value: "" }, label), choices.map(([value, text]) => h("option", { value }, text)));
    select.value = this.wanted[name] ?? "";
    select.classList.toggle("active", select.value !== "");
    select.addEventListener("change", () => {
      select.classList.toggle("active", select.value !== "");
      this.setFilter(name, select.value);
    });
    return select;
  }

  /** @param {boolean} isPriceChanged */
  draw(isPriceChanged) {
    if (isPriceChanged) this.version += 1;
    const shown = this.tools.filter((tool) => this.matches(tool));
    this.list.setItems(shown);
    this.list.select(getPlace().id);
    const tokens = this.totals?.[this.dialect.value];
    const count = shown.length === this.tools.length ? plural(shown.length, "tool") : `${formatCount(shown.length)} of ${plural(this.tools.length, "tool")}`;
    this.total.textContent = tokens === undefined ? `${count}${this.isChecked ? "" : ", checking…"}` : `${count}, ${formatCount(tokens)} tokens`;
  }

  /** @param {ToolRow} tool */
  matches(tool) {
    const { q, origin, toolset, trust, state } = this.wanted;
    const text = (q ?? "").toLowerCase();
    return (
      (text === "" || `${tool.name}\n${tool.title ?? ""}\n${tool.description}`.toLowerCase().includes(text)) &&
      (!origin || origin === tool.origin || origin === `${tool.origin}:${tool.source}`) &&
      (!toolset || toolset === tool.toolset) &&
      (!trust || trust === tool.trust) &&
      (!state || (STATES.find(([value]) => value === state)?.[2](tool) ?? true))
    );
  }

  /** @param {ToolRow} tool */
  drawRow(tool) {
    const price = tool.prices?.[this.dialect.value];
    const row = h(
      "div",
      { class: tool.is_available ? "" : "unavailable" },
      h("span", { class: "mono tool-name", title: tool.name }, tool.name),
      h("span", { class: "grow muted" }, tool.title ?? firstSentence(tool.description)),
      drawMarks(tool),
      h("span", { class: "number price", title: price === undefined ? "Price not known" : `${price} tokens in each request (${this.dialect.value})` }, price === undefined ? "" : formatCount(price)),
    );
    return row;
  }
}

/** @param {ToolRow} tool */
function drawMarks(tool) {
  const errors = tool.findings?.["error"] ?? 0;
  const warnings = tool.findings?.["warning"] ?? 0;
  return h(
    "span",
    { class: "marks" },
    isWithheld(tool) && badge("quarantine", "error", tool.lock.reason ?? ""),
    errors > 0 && badge(plural(errors, "error"), "error", plural(errors, "lint error")),
    errors === 0 && warnings > 0 && badge(plural(warnings, "warning"), "warn", plural(warnings, "lint warning")),
    tool.needs_approval && badge("approval", "wait", "A person must approve each call"),
    tool.is_destructive && badge("destructive", "warn", "Its effect cannot be undone"),
    !tool.is_available && !isWithheld(tool) && badge("not available", "quiet"),
    badge(tool.source, "quiet", `${ORIGINS[tool.origin]} ${tool.source}`),
  );
}

/** @param {string} text */
function firstSentence(text) {
  const end = text.search(/[.\n](\s|$)/);
  return (end < 0 ? text : text.slice(0, end + 1)).trim();
}

/** @param {(string | null)[]} values @returns {string[]} */
function unique(values) {
  return [...new Set(values.filter((each) => each !== null && each !== ""))].sort().slice(0, 200).map(String);
}
