// @ts-check
// One approval: exactly what will run, which parts untrusted content wrote, why it was asked, and its outcome.

import { isOperator } from "../api.js";
import { h } from "../dom.js";
import { formatCode, formatDuration, formatExactTime, formatTime, plural } from "../format.js";
import { backControl, badge, codeBlock, facts, section } from "../parts.js";
import { buildPath } from "../router.js";
import { describeStatus, formatLeft, reveal, toEditable } from "./model.js";

/** @typedef {import("./model.js").Detail} Detail */
/** @typedef {import("./model.js").Outcome} Outcome */

/**
 * Draw the head of an approval.
 * @param {Detail} detail
 * @param {() => void} onBack
 */
export function drawHead(detail, onBack) {
  const { approval } = detail;
  const [text, tone] = describeStatus(approval);
  const foreign = detail.values.filter((value) => value.origin === "foreign").length;
  return h(
    "header",
    {},
    backControl(onBack),
    h("h1", { class: "mono", tabindex: -1 }, reveal(approval.tool)),
    badge(text, tone),
    approval.is_edited && badge("edited", "accent"),
    foreign > 0 && badge(plural(foreign, "untrusted value"), "warn"),
    approval.status === "pending" && h("span", { class: "left number", dataset: { until: approval.expires_at }, title: `Expires ${formatExactTime(approval.expires_at)}` }, formatLeft(approval.expires_at)),
  );
}

/**
 * Draw all that a person should know before answering.
 * @param {Detail} detail
 */
export function drawFacts(detail) {
  const { approval } = detail;
  const isPending = approval.status === "pending";
  return [
    drawToolState(detail),
    section(isPending ? "What will run" : "What was asked", drawValues(detail), { more: drawOrigins(detail) }),
    approval.is_edited && section("Approved with other arguments", codeBlock(toEditable(detail.ran_text ?? ""), { label: "Arguments that ran" })),
    section("Why it was asked", drawReasons(detail)),
    section("The question in full", codeBlock(approval.shown, { label: "Question" }), { isFoldable: true, isOpen: false }),
    section(
      "From",
      facts([
        ["Caller", approval.caller !== null && h("code", {}, reveal(JSON.stringify(approval.caller)))],
        ["Session", approval.session_id !== null && h("a", { href: buildPath("flow", approval.session_id), class: "mono" }, reveal(approval.session_id))],
        ["Turn", approval.turn_id !== null && h("a", { href: buildPath("turns", approval.turn_id), class: "mono" }, reveal(approval.turn_id))],
        ["Asked", h("time", { datetime: approval.created_at, title: formatExactTime(approval.created_at) }, formatTime(approval.created_at))],
        ["Answered", approval.answered_at !== null && `${formatTime(approval.answered_at)}${approval.answered_by === null ? "" : ` by ${reveal(approval.answered_by)}`}`],
        ["Call", detail.call !== null && h("a", { href: buildPath("calls", detail.call.key), class: "mono" }, reveal(approval.tool_call_id))],
        ["Approval", h("code", {}, approval.id)],
      ]),
    ),
  ];
}

/** @param {Detail} detail */
function drawToolState({ tool_state, approval }) {
  if (tool_state === "same" || approval.status !== "pending") return null;
  const what = tool_state === "gone" ? "The tool is not here any more, or its server is not connected." : "The tool has changed since it was asked about.";
  return h("p", { class: "notice", role: "status" }, `${what} The call can only be denied; it must be made again.`);
}

/** @param {Detail} detail */
function drawValues({ values, more_values }) {
  if (values.length === 0) return h("p", { class: "muted" }, "No arguments.");
  return h(
    "div",
    { class: "values" },
    h(
      "table",
      { class: "data" },
      h("colgroup", {}, h("col", { class: "names" }), h("col", {})),
      h("thead", { class: "sr-only" }, h("tr", {}, h("th", { scope: "col" }, "Argument"), h("th", { scope: "col" }, "Value"))),
      h("tbody", {}, values.map(drawValue)),
    ),
    more_values > 0 && h("p", { class: "hint" }, `${plural(more_values, "more value")} in the question in full.`),
  );
}

/** @param {import("./model.js").Value} value */
function drawValue(value) {
  const isForeign = value.origin === "foreign";
  return h(
    "tr",
    { class: isForeign ? "foreign" : "" },
    h("th", { scope: "row" }, value.path),
    h(
      "td",
      {},
      h("div", { class: isForeign ? "value untrusted" : "value" }, value.text, value.more_chars > 0 && h("span", { class: "hint" }, ` … ${plural(value.more_chars, "more character")}`)),
      value.detail !== null && h("div", { class: isForeign ? "origin foreign" : "origin" }, isForeign ? h("strong", {}, "Untrusted: ") : "", value.detail),
    ),
  );
}

/** @param {Detail} detail */
function drawOrigins({ origins, tainted }) {
  if (origins === "known") return null;
  const text = tainted ? "The session had read untrusted content; which values come from it is not known." : "Where the values come from is not recorded.";
  return h("span", { class: tainted ? "origin foreign" : "hint" }, text);
}

/** @param {Detail} detail */
function drawReasons({ approval }) {
  if (approval.reasons.length === 0) return h("p", {}, "This tool always asks.");
  return h("ul", { class: "reasons" }, approval.reasons.map((reason) => h("li", {}, reveal(reason))));
}

/**
 * Draw how an answered call ended: just now, or as the journal has it.
 * @param {Detail} detail
 * @param {Outcome | null} outcome
 */
export function drawOutcome(detail, outcome) {
  const { approval, call } = detail;
  if (approval.status === "pending" || approval.status === "expired") return null;
  const who = approval.answered_by === null ? "" : ` by ${reveal(approval.answered_by)}`;
  if (approval.status === "denied") return h("section", { class: "section outcome", role: "status" }, h("p", {}, `Denied${who}. The call did not run.`));
  const ok = outcome !== null ? outcome.ok : call !== null && call.state === "finished" && call.code === null;
  const code = outcome?.code ?? call?.code ?? null;
  const text = outcome?.model_text ?? call?.error ?? call?.text ?? "";
  const artifact = outcome?.artifact?.id ?? call?.artifact_id ?? null;
  return h(
    "section",
    { class: "section outcome", role: "status" },
    h(
      "header",
      {},
      h("h2", {}, "Outcome"),
      approval.status === "executing" && outcome === null ? badge("running", "accent") : badge(ok ? "ok" : formatCode(code ?? "unknown"), ok ? "ok" : "error"),
      outcome !== null && h("span", { class: "muted" }, formatDuration(outcome.duration_ms)),
    ),
    text !== "" && codeBlock(text, { label: outcome === null ? "Result" : "What the model sees", maxChars: 20_000 }),
    h(
      "div",
      { class: "buttons" },
      call !== null && h("a", { class: "button", href: buildPath("calls", call.key) }, "Open the call"),
      artifact !== null && h("a", { class: "button", href: buildPath("artifacts", artifact) }, "Read the full result"),
    ),
  );
}

/**
 * Draw the buttons that answer.
 * @param {Detail} detail
 * @param {{approve: () => void, deny: () => void, edit: () => void}} actions
 * @param {boolean} isBusy
 */
export function drawActions(detail, actions, isBusy) {
  if (detail.approval.status !== "pending") return null;
  if (!isOperator) return h("div", { class: "actions" }, h("p", { class: "hint" }, "This login is a viewer: it cannot answer."));
  const cannotRun = detail.tool_state !== "same";
  return h(
    "div",
    { class: "actions", role: "group", "aria-label": "Answer" },
    h("button", { class: "primary", onclick: actions.approve, disabled: isBusy || cannotRun }, isBusy ? "Running …" : "Approve", h("kbd", { "aria-hidden": "true" }, "a")),
    h("button", { class: "danger", onclick: actions.deny, disabled: isBusy }, "Deny", h("kbd", { "aria-hidden": "true" }, "d")),
    h("button", { onclick: actions.edit, disabled: isBusy || cannotRun }, "Edit …", h("kbd", { "aria-hidden": "true" }, "e")),
  );
}
