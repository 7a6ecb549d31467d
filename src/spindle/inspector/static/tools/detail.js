// @ts-check
// One tool in full: what it is, what it can reach, what it costs, its schemas, and what the linter says.

import { get } from "../api.js";
import { h } from "../dom.js";
import { formatCount, formatDuration } from "../format.js";
import { backControl, badge, codeBlock, facts, jsonBlock, load, section, tabs } from "../parts.js";
import { buildPath } from "../router.js";
import { makeId } from "./fields.js";
import { ORIGINS } from "./list.js";
import { schemaTree } from "./tree.js";
import { TrialPanel } from "./trial.js";

const LABELS = /** @type {Record<string, string>} */ ({
  trusted: "Instructions in its results may be followed.",
  "first-party": "Its results are data of this application: not to be obeyed, but not foreign.",
  "third-party-public": "Its results are foreign and public.",
  "third-party-private": "Its results are foreign and private: the strictest reading.",
});
const LOCKS = /** @type {Record<string, string>} */ ({
  local: "defined on this machine",
  unlocked: "not locked: a changed definition would be offered",
  locked: "locked: its definition is the one that was accepted",
});

/**
 * Draw a tool; returns the element and the panel in which it is tried.
 * @param {any} detail
 * @param {string[]} dialects
 * @param {string} selected       the tab to open
 * @param {(tab: string) => void} onTab
 */
export function drawDetail(detail, dialects, selected, onTab) {
  const { tool } = detail;
  const trial = new TrialPanel(detail, dialects);
  const findings = detail.findings.length;
  const element = h(
    "div",
    { class: "detail" },
    h(
      "header",
      {},
      backControl("/page/tools"),
      h("h1", { class: "mono" }, tool.name),
      h("div", { class: "badges" }, drawBadges(tool)),
      h("a", { class: "recent", href: buildPath("calls", null, { tool: tool.name }) }, "Recent calls"),
    ),
    tool.title !== null && h("p", {}, tool.title),
    drawDescription(detail.description),
    tabs(
      "Tool",
      [
        { id: "try", title: "Try it", draw: (panel) => panel.append(trial.element) },
        { id: "about", title: findings > 0 ? ["About ", badge([`${findings}`, h("span", { class: "on-desktop" }, findings === 1 ? "\u00a0finding" : "\u00a0findings")], worstTone(tool.findings), "Findings of the linter")] : "About", draw: (panel) => panel.append(drawAbout(detail)) },
        { id: "schema", title: "Schema", draw: (panel) => panel.append(drawSchema(detail)) },
        { id: "model", title: "What models read", draw: (panel) => panel.append(drawDefinition(tool, dialects)) },
      ],
      { selected, onSelect: onTab },
    ),
  );
  return { element, trial };
}

/** @param {any} tool */
function drawBadges(tool) {
  return [
    badge(`${ORIGINS[tool.origin]} ${tool.source}`, "quiet", "Where it comes from"),
    tool.is_read_only && badge("read-only", "ok", "It has no side effects"),
    tool.is_destructive && badge("destructive", "warn", "Its effect cannot be undone"),
    tool.needs_approval && badge("needs approval", "wait", "A person must approve each call"),
    tool.trust !== null && badge(tool.trust, tool.trust === "trusted" ? "ok" : "quiet", LABELS[tool.trust]),
    tool.lock.state === "locked" && badge("locked", "ok", LOCKS["locked"]),
    tool.lock.state === "unlocked" && badge("not locked", "warn", LOCKS["unlocked"]),
    !tool.is_available && badge("not available", "error"),
  ];
}

/** @param {Record<string, number> | null} findings @returns {import("../parts.js").Tone} */
function worstTone(findings) {
  return findings?.["error"] ? "error" : findings?.["warning"] ? "warn" : "quiet";
}

/** @param {string} text */
function drawDescription(text) {
  const lines = text.trim();
  if (lines.length < 400) return h("p", { class: "description" }, lines);
  const [first = "", ...rest] = lines.split("\n\n");
  return h("details", { class: "description" }, h("summary", {}, first.slice(0, 400)), h("p", {}, rest.length > 0 ? rest.join("\n\n") : first.slice(400)));
}

/** @param {any} detail */
function drawAbout(detail) {
  const { tool } = detail;
  const flags = [tool.is_read_only && "no side effects", tool.is_idempotent && "may be repeated", tool.is_destructive && "cannot be undone"].filter(Boolean);
  const prices = Object.entries(tool.prices ?? {});
  return h(
    "div",
    { class: "about" },
    facts([
      ["Origin", `${ORIGINS[tool.origin]} ${tool.source}`],
      ["Toolset", tool.toolset],
      ["Defined in", detail.handler !== "" && h("code", {}, detail.handler)],
      ["Effect", flags.length > 0 ? flags.join(", ") : "may change something"],
      ["Approval", tool.needs_approval ? "a person must approve each call" : "not required by the tool itself"],
      ["Results", tool.trust === null ? null : `${tool.trust}. ${LABELS[tool.trust] ?? ""}`],
      ["Reach", detail.reach.length === 0 ? "Declares no capability: it gets no file, network, process, secret or store." : h("ul", { class: "sentences" }, detail.reach.map((/** @type {string} */ each) => h("li", {}, each)))],
      ["Lock", tool.lock.reason ?? LOCKS[tool.lock.state] ?? tool.lock.state],
      ["Seen by", detail.visible_to === null ? "every client: no profiles are configured" : detail.visible_to.length === 0 ? "no profile" : `${detail.visible_to.length === 1 ? "the profile" : "the profiles"} ${detail.visible_to.join(", ")}`],
      ["Timeout", detail.timeout_seconds === null ? null : formatDuration(detail.timeout_seconds * 1000)],
      ["Result limit", detail.max_result_chars === null ? null : `${formatCount(detail.max_result_chars)} characters, then the whole result is kept as an artifact`],
      ["Secret arguments", detail.secret_fields.join(", ")],
      ["Fingerprint", h("code", { class: "truncate", title: detail.fingerprint }, detail.fingerprint.slice(0, 16))],
    ]),
    prices.length > 0 &&
      section("Price", [
        h("p", { class: "hint" }, "Tokens that its definition takes in each request, estimated."),
        h("table", { class: "data prices" }, h("thead", {}, h("tr", {}, h("th", {}, "Dialect"), h("th", { class: "number" }, "Tokens"))), h("tbody", {}, prices.map(([name, tokens]) => h("tr", {}, h("td", {}, name), h("td", { class: "number" }, formatCount(Number(tokens))))))),
      ]),
    section("Lint", detail.findings.length === 0 ? h("p", { class: "hint" }, tool.findings === null ? "Not checked yet." : "No findings.") : detail.findings.map(drawFinding)),
  );
}

/** @param {any} finding */
function drawFinding(finding) {
  const tone = finding.severity === "error" ? "error" : finding.severity === "warning" ? "warn" : "quiet";
  return h(
    "div",
    { class: "finding" },
    h("div", {}, badge(finding.severity, tone), " ", h("strong", {}, `${finding.rule} ${finding.title}`)),
    h("p", {}, finding.message, finding.place !== "" && [" at ", h("code", {}, finding.place)]),
    finding.quote !== "" && h("pre", { class: "wrap quote" }, finding.quote),
    h("p", { class: "hint" }, finding.help),
  );
}

/** @param {any} detail */
function drawSchema(detail) {
  if (detail.input_schema === null) return h("p", { class: "hint" }, "The schema is too large to show.");
  const parts = [
    section("Arguments", schemaTree(detail.input_schema)),
    section("Arguments as JSON Schema", jsonBlock(detail.input_schema, "Input schema"), { isFoldable: true, isOpen: false }),
  ];
  if (detail.output_schema !== null) {
    parts.push(section("Structured result", schemaTree(detail.output_schema)));
    parts.push(section("Structured result as JSON Schema", jsonBlock(detail.output_schema, "Output schema"), { isFoldable: true, isOpen: false }));
  }
  return h("div", { class: "about" }, parts);
}

/**
 * @param {any} tool
 * @param {string[]} dialects
 */
function drawDefinition(tool, dialects) {
  const target = h("div", {});
  const select = h("select", { id: makeId(), title: "The API or protocol by which the model gets the definition" }, dialects.map((each) => h("option", { value: each }, each)));
  const show = () =>
    void load(target, get("/tools/definition", { name: tool.name, dialect: select.value }), (answer) => codeBlock(answer.json_text, { label: "Definition" }));
  select.addEventListener("change", show);
  show();
  return h("div", { class: "about" }, h("div", { class: "rendering-head" }, h("label", { class: "muted", for: select.id }, "Dialect"), select), target);
}
