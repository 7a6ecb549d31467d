// @ts-check
// One call: what was asked, what came of it, why, and what can be done with it.

import { get, isOperator, post } from "../api.js";
import { toEditable } from "../approvals/model.js";
import { h } from "../dom.js";
import { formatCount, formatDuration, formatExactTime, plural, shorten } from "../format.js";
import { ask, backControl, badge, codeBlock, facts, section, toast } from "../parts.js";
import { buildPath, go } from "../router.js";
import { describeState } from "./model.js";
import { drawTrace } from "./trace.js";

/** @typedef {import("./model.js").CallDetail} CallDetail */
/** @typedef {import("./model.js").ShownText} ShownText */

/** The call that was marked to be compared with another one. @type {{key: string, tool_call_id: string} | null} */
let marked = null;

/**
 * @param {CallDetail} detail
 * @param {{query: Record<string, string>, redraw: () => void, close: () => void}} view
 */
export function drawDetail(detail, { query, redraw, close }) {
  const { call } = detail;
  const [state, tone] = describeState(call);
  return h(
    "article",
    { class: "detail call-detail", "aria-label": `Call of ${shorten(call.tool, 60)}` },
    h(
      "header",
      {},
      backControl(close),
      h("h1", { class: "mono" }, call.tool),
      badge(state, tone),
      call.attempts > 1 && badge(plural(call.attempts, "attempt"), "warn", "How often its body was started"),
      h("button", { class: "quiet close", onclick: close, title: "Close (Esc)", "aria-label": "Close" }, "×"),
    ),
    drawButtons(detail, query, redraw),
    drawFacts(detail),
    detail.error !== null && drawError(detail, detail.error),
    detail.flow !== null && drawFlow(detail.flow),
    detail.approvals.length > 0 && drawApprovals(detail),
    section("Arguments", drawText(detail.args_text, "Arguments")),
    detail.result !== null && drawResult(detail, detail.result),
    detail.structured !== null && section("Structured result", drawText(detail.structured, "Structured result"), { isFoldable: true, isOpen: detail.result === null }),
    detail.media.length > 0 && section("Media", h("ul", { class: "plain-list" }, detail.media.map((each) => h("li", { class: "mono" }, each)))),
    drawTrace(call.key),
    section("Identity", drawIdentity(detail), { isFoldable: true, isOpen: false }),
  );
}

/**
 * @param {ShownText} shown
 * @param {string} label
 */
function drawText(shown, label) {
  return [
    codeBlock(shown.text, { label }),
    shown.is_cut && h("p", { class: "hint" }, `The first ${formatCount(shown.text.length)} of ${formatCount(shown.chars)} characters.`),
  ];
}

/** @param {CallDetail["call"]} call */
function describeDuration(call) {
  if (call.duration_ms === null) return call.state === "started" ? "running" : "";
  return call.attempts === 0 ? "it did not run" : formatDuration(call.duration_ms);
}

/** @param {CallDetail} detail */
function drawFacts({ call, label, caller }) {
  return facts([
    ["Started", formatExactTime(call.started_at)],
    ["Took", describeDuration(call)],
    ["Session", call.session_id !== null && drawSession(call.session_id)],
    ["Turn", call.turn_id !== null && h("a", { class: "mono", href: buildPath("turns", call.turn_id) }, call.turn_id)],
    ["Result", call.result_chars !== null && plural(call.result_chars, "character")],
    ["Artifact", call.artifact_id !== null && h("a", { class: "mono", href: buildPath("artifacts", call.artifact_id) }, call.artifact_id)],
    ["Trust", label !== null && badge(label, label === "trusted" ? "ok" : label.startsWith("third-party") ? "warn" : "quiet")],
    ["Cost", call.cost_usd !== null && `$${call.cost_usd}`],
    ["Caller", caller !== null && h("code", {}, caller.text.replace(/\s+/g, " "))],
  ]);
}

/** @param {string} session */
function drawSession(session) {
  return [
    h("a", { class: "mono", href: buildPath("calls", null, { session }), title: "All calls of this session" }, session),
    " · ",
    h("a", { href: buildPath("turns", null, { session }) }, "turns"),
    " · ",
    h("a", { href: buildPath("flow", session) }, "flow"),
  ];
}

/**
 * @param {CallDetail} detail
 * @param {ShownText} error
 */
function drawError(detail, error) {
  const by = detail.error_by === "spindle" ? "Spindle" : detail.error_by === "tool" ? "the tool" : "";
  const more = [by !== "" && badge(`written by ${by}`, "quiet"), detail.error_field !== null && badge(`field ${detail.error_field}`), detail.is_retryable && badge("may be tried again", "accent")];
  return section(`Error${detail.call.code === null ? "" : `: ${detail.call.code}`}`, drawText(error, "Error"), { more: h("span", { class: "badges" }, more) });
}

/** @param {{asked: boolean, reasons: string[]}} flow */
function drawFlow(flow) {
  const title = flow.asked ? "A person was asked, because" : "Information flow";
  if (flow.reasons.length === 0) return flow.asked ? section(title, h("p", { class: "hint" }, "the tool requires approval.")) : null;
  return section(title, h("ul", { class: "plain-list" }, flow.reasons.map((reason) => h("li", { class: "untrusted" }, reason))));
}

/** @param {CallDetail} detail */
function drawApprovals({ approvals }) {
  return section(
    "Approvals",
    h(
      "ul",
      { class: "plain-list" },
      approvals.map((each) =>
        h(
          "li",
          {},
          h("a", { href: buildPath("approvals", each.id) }, badge(each.status, each.status === "pending" ? "wait" : each.status === "denied" ? "error" : "quiet")),
          ` asked ${formatExactTime(each.created_at)}`,
          each.answered_at !== null && `, answered ${formatExactTime(each.answered_at)}${each.answered_by === null ? "" : ` by ${each.answered_by}`}`,
        ),
      ),
    ),
  );
}

/**
 * @param {CallDetail} detail
 * @param {ShownText} result
 */
function drawResult(detail, result) {
  const artifact = detail.call.artifact_id;
  const isUntrusted = detail.label !== null && detail.label.startsWith("third-party");
  return section("Result", h("div", { class: isUntrusted ? "untrusted" : "" }, drawText(result, "Result")), {
    more: [
      isUntrusted && badge("untrusted content", "warn", "Outsiders may have written it"),
      detail.is_partial && badge("shown in part", "quiet"),
      artifact !== null && h("a", { href: buildPath("artifacts", artifact) }, "Open the full result"),
    ],
  });
}

/** @param {CallDetail} detail */
function drawIdentity(detail) {
  return facts([
    ["Tool call id", h("code", {}, detail.call.tool_call_id)],
    ["Idempotency key", h("code", {}, detail.call.key)],
    ["Checksum", h("code", {}, detail.checksum)],
    ["Fingerprint", detail.fingerprint !== null && h("code", {}, detail.fingerprint)],
  ]);
}

/**
 * @param {CallDetail} detail
 * @param {Record<string, string>} query
 * @param {() => void} redraw
 */
function drawButtons(detail, query, redraw) {
  const { call, previous } = detail;
  const other = marked !== null && marked.key !== call.key ? marked : null;
  const replayButton = h("button", { disabled: detail.replay_problem !== null, title: detail.replay_problem ?? "Make this call again as a new one", onclick: () => void replay(detail, replayButton) }, "Replay");
  return h(
    "div",
    { class: "buttons" },
    isOperator && replayButton,
    detail.is_tool_known && h("a", { class: "button", href: buildPath("tools", call.tool, { from: call.key }), title: "Open the form of the tool with these arguments" }, "Edit and run"),
    previous !== null && h("a", { class: "button", href: buildPath("calls", call.key, { ...query, compare: previous.key }), title: "The call of this tool before" }, "Compare with previous"),
    other !== null
      ? h("a", { class: "button", href: buildPath("calls", call.key, { ...query, compare: other.key }) }, `Compare with ${shorten(other.tool_call_id, 18)}`)
      : h("button", { "aria-pressed": String(marked?.key === call.key), title: "Then open another call to compare them", onclick: () => mark(call, redraw) }, marked?.key === call.key ? "Marked to compare" : "Mark to compare"),
    isOperator && detail.replay_problem !== null && h("p", { class: "hint" }, detail.replay_problem),
  );
}

/**
 * @param {import("./model.js").CallRow} call
 * @param {() => void} redraw
 */
function mark(call, redraw) {
  marked = marked?.key === call.key ? null : { key: call.key, tool_call_id: call.tool_call_id };
  redraw();
}

/**
 * @param {CallDetail} detail
 * @param {HTMLButtonElement} button
 */
async function replay(detail, button) {
  const { call } = detail;
  const content = [
    h("p", {}, "It runs with the recorded arguments, as a new call of the same session. Approvals and policies apply."),
    codeBlock(toEditable(detail.args_text.text), { label: "Arguments", maxChars: 20_000 }),
  ];
  if (!(await ask({ title: `Run ${shorten(call.tool, 60)} again?`, content, confirm: "Replay" }))) return;
  button.disabled = true;
  try {
    const made = /** @type {import("./model.js").RepeatedCall} */ (await post("/call/replay", { key: call.key }, {}));
    if (made.approval_id !== null) {
      toast("The call waits for an approval");
      go(buildPath("approvals", made.approval_id));
    } else {
      toast(!made.is_finished ? "The call is running" : made.code === null ? "The call has ended" : `The call failed: ${made.code}`, made.code === null ? "ok" : "error");
      go(buildPath("calls", made.key));
    }
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error), "error");
  } finally {
    button.disabled = false;
  }
}

/**
 * @param {string} key
 * @param {AbortSignal} signal
 * @returns {Promise<CallDetail>}
 */
export function readDetail(key, signal) {
  return get("/call", { key }, signal);
}
