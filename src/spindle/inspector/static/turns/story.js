// @ts-check
// One turn as a story: what was asked, each step of the model with its calls and gates, and how it ended.

import { h } from "../dom.js";
import { formatCode, formatCount, formatDuration, formatExactTime, formatTime, plural } from "../format.js";
import { badge, codeBlock, facts, section } from "../parts.js";
import { buildPath } from "../router.js";
import { drawContext } from "./context.js";
import { formatCost, getDuration, toneOfStatus } from "./words.js";

/** @typedef {import("./words.js").TurnDetail} TurnDetail */
/** @typedef {import("./words.js").TurnIteration} TurnIteration */
/** @typedef {import("./words.js").TurnGate} TurnGate */
/** @typedef {import("./words.js").TurnCall} TurnCall */

const LONG_CHARS = 600;

/**
 * @param {TurnDetail} turn
 * @param {HTMLElement} back
 */
export function drawStory(turn, back) {
  const { summary } = turn;
  return h(
    "article",
    { class: "detail turn-story" },
    h(
      "header",
      {},
      back,
      h("h1", {}, "Turn ", h("code", {}, summary.turn_id)),
      badge(summary.status, toneOfStatus(summary.status)),
      summary.dry_run && badge("dry run", "quiet", "Calls were described, not run"),
    ),
    drawFacts(turn),
    section("Context", drawContext(turn.context)),
    section("Story", drawSteps(turn)),
  );
}

/** @param {TurnDetail} turn */
function drawFacts(turn) {
  const { summary } = turn;
  const usage = Object.entries(turn.usage)
    .filter(([name]) => !name.endsWith("cost_usd"))
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${formatFigure(value)}`);
  return facts([
    ["Session", h("a", { class: "mono", href: buildPath("flow", summary.session_id) }, summary.session_id)],
    ["Caller", summary.caller === null ? null : h("span", { class: "mono" }, JSON.stringify(summary.caller))],
    ["Started", h("time", { datetime: summary.started_at, title: formatExactTime(summary.started_at) }, formatTime(summary.started_at))],
    [summary.ended_at === null ? "So far" : "Took", formatDuration(getDuration(summary))],
    ["Steps", formatCount(summary.iteration_count)],
    ["Calls", `${formatCount(summary.call_count)}${summary.error_count ? `, ${formatCount(summary.error_count)} failed` : ""}`],
    ["Resumed", turn.resumed_count === 0 ? null : plural(turn.resumed_count, "time")],
    ["Usage", usage.length === 0 ? "not reported by the model callback" : usage.join(" · ")],
    ["Cost", formatCost(summary.cost_usd)],
    ["Last change", summary.status === "running" ? formatTime(summary.updated_at) : null],
  ]);
}

/** @param {unknown} value */
function formatFigure(value) {
  return typeof value === "number" ? value.toLocaleString("en-US", { maximumFractionDigits: 6 }) : String(value);
}

/** @param {TurnDetail} turn */
function drawSteps(turn) {
  const steps = h("ol", { class: "steps" });
  if (turn.request !== "") steps.append(drawMessage("User", turn.request, "user"));
  const shown = new Set(turn.iterations.map((each) => each.number));
  let before = -1;
  for (const iteration of turn.iterations) {
    const missing = iteration.number - before - 1;
    if (missing > 0) steps.append(h("li", { class: "step gap" }, `${plural(missing, "step")} left out`));
    before = iteration.number;
    steps.append(drawIteration(turn, iteration));
  }
  for (const gate of turn.gates) if (!shown.has(gate.iteration)) steps.append(h("li", { class: "step" }, drawGate(gate)));
  if (turn.error !== null) steps.append(h("li", { class: "step" }, h("div", { class: "problem" }, turn.error)));
  const last = turn.iterations.at(-1)?.text ?? "";
  if (turn.text !== "" && turn.text !== last) steps.append(drawMessage("Final answer", turn.text, "final"));
  return steps;
}

/**
 * @param {string} who
 * @param {string} text
 * @param {string} kind
 */
function drawMessage(who, text, kind) {
  return h("li", { class: `step ${kind}` }, h("h3", {}, who), drawText(text, who));
}

/**
 * @param {string} text
 * @param {string} label
 */
function drawText(text, label) {
  return text.length > LONG_CHARS ? codeBlock(text, { label }) : h("p", { class: "said" }, text);
}

/**
 * @param {TurnDetail} turn
 * @param {TurnIteration} iteration
 */
function drawIteration(turn, iteration) {
  const took = iteration.ended_at === null ? null : Date.parse(iteration.ended_at) - Date.parse(iteration.started_at);
  const hasTokens = iteration.input_tokens !== null || iteration.output_tokens !== null;
  const gates = turn.gates.filter((gate) => gate.iteration === iteration.number);
  return h(
    "li",
    { class: "step model" },
    h(
      "header",
      {},
      h("h3", {}, `Step ${iteration.number + 1}`),
      h("span", { class: "muted number", title: formatExactTime(iteration.started_at) }, formatTime(iteration.started_at)),
      h("span", { class: "muted number" }, took === null ? "running" : formatDuration(took)),
      hasTokens && h("span", { class: "muted number", title: "Tokens in → out" }, `${formatCount(iteration.input_tokens ?? 0)} → ${formatCount(iteration.output_tokens ?? 0)} tokens`),
      h("span", { class: "muted number" }, formatCost(iteration.cost_usd)),
    ),
    iteration.thoughts !== "" &&
      h("details", { class: "thoughts", id: `thoughts-${iteration.number}` }, h("summary", {}, "Thoughts"), h("p", { class: "said" }, iteration.thoughts)),
    iteration.text !== "" && drawText(iteration.text, `Message of step ${iteration.number + 1}`),
    iteration.calls.length > 0 && drawCalls(iteration),
    gates.map(drawGate),
  );
}

/** @param {TurnIteration} iteration */
function drawCalls(iteration) {
  const rows = iteration.calls.map((call) => h("li", { class: "turn-call" }, h("span", { class: "turn-call-state" }, drawState(call)), drawCallName(call), drawCallFacts(call)));
  const omitted = iteration.calls_omitted > 0 && h("li", { class: "muted" }, `${plural(iteration.calls_omitted, "more call")} left out`);
  return h("ul", { class: "turn-calls", "aria-label": `Calls of step ${iteration.number + 1}` }, rows, omitted);
}

/** @param {TurnCall} call */
function drawState(call) {
  if (!call.is_done) return badge("open", "wait", "It has not ended: it runs, or waits for an answer");
  return call.code === null ? badge("ok", "ok") : badge(formatCode(call.code), "error");
}

/** @param {TurnCall} call */
function drawCallName(call) {
  const name = h("code", {}, call.tool);
  const link = call.key === null ? name : h("a", { href: buildPath("calls", call.key), title: call.tool_call_id }, name);
  return h("span", { class: "turn-call-name truncate" }, link);
}

/** @param {TurnCall} call */
function drawCallFacts(call) {
  return h(
    "span",
    { class: "turn-call-facts muted number" },
    call.artifact_id !== null && h("a", { href: buildPath("artifacts", call.artifact_id) }, "artifact"),
    call.chars !== null && h("span", { title: "What the model saw of its result" }, plural(call.chars, "character")),
    call.duration_ms !== null && h("span", {}, formatDuration(call.duration_ms)),
  );
}

/** @param {TurnGate} gate */
function drawGate(gate) {
  const isOpen = gate.closed_at === null;
  const word = isOpen ? "waiting" : (gate.result ?? "closed");
  const tone = isOpen ? "wait" : ["resolved", "approved"].includes(word) ? "ok" : "warn";
  const waited = gate.closed_at === null ? null : Date.parse(gate.closed_at) - Date.parse(gate.opened_at);
  const answer = gate.answer === null || gate.answer === undefined ? "" : `Answer: ${typeof gate.answer === "string" ? gate.answer : JSON.stringify(gate.answer)}`;
  return h(
    "div",
    { class: "turn-gate" },
    h(
      "header",
      {},
      badge(word, tone),
      h("strong", {}, gate.kind === "approval" ? "Approval" : "Gate"),
      gate.tool !== null && h("code", {}, gate.tool),
      gate.kind === "approval" && isOpen && h("a", { href: buildPath("approvals", gate.id) }, "answer"),
      waited !== null && h("span", { class: "muted number" }, `after ${formatDuration(waited)}`),
      gate.by !== null && h("span", { class: "muted" }, `by ${gate.by}`),
    ),
    gate.reason !== "" && h("p", { class: "said" }, gate.reason),
    answer !== "" && h("p", { class: "muted" }, answer),
  );
}
