// @ts-check
// One session as a timeline: what the user said, what each call brought in, and which calls were asked about.

import { get } from "../api.js";
import { h } from "../dom.js";
import { formatCode, formatCount, formatExactTime, formatTime, plural } from "../format.js";
import { badge, facts, load, section } from "../parts.js";
import { buildPath } from "../router.js";
import { drawLabel, drawOrigin, drawTaint, isForeign } from "./labels.js";

/** @typedef {import("./labels.js").SessionDetail} SessionDetail */
/** @typedef {import("./labels.js").SourceInFlow} SourceInFlow */
/** @typedef {import("./labels.js").CallInFlow} CallInFlow */
/** @typedef {import("./labels.js").ValueInFlow} ValueInFlow */
/** @typedef {import("./labels.js").Decision} Decision */

/**
 * @param {SessionDetail} session
 * @param {HTMLElement} back
 */
export function drawSession(session, back) {
  return h(
    "article",
    { class: "detail flow-session" },
    h("header", {}, back, h("h1", {}, session.session_id), drawTaint(session.is_tainted)),
    !session.has_policy &&
      h("p", { class: "hint" }, "This server has no flow policy: calls are not judged by their values. What the calls brought in is labelled all the same. ", h("code", {}, "[flow]"), " in the configuration turns it on."),
    !session.is_complete && h("p", { class: "notice" }, `The session is long. Its newest ${plural(session.call_count, "call")} are read here; what entered it before counts as tainted for the policy.`),
    facts([
      ["Calls", formatCount(session.call_count)],
      ["Asked", drawAsked(session)],
      ["Sources", drawSourceCounts(session)],
      ["See also", [
        h("a", { href: buildPath("calls", null, { session: session.session_id }) }, "its calls"),
        ", ",
        h("a", { href: buildPath("turns", null, { session: session.session_id }) }, "its turns"),
      ]],
    ]),
    section("Timeline", drawTimeline(session)),
  );
}

/** @param {SessionDetail} session */
function drawAsked(session) {
  if (session.asked_count === 0) return "never";
  const asked = session.calls.filter((call) => call.was_asked);
  const last = asked.slice(-5).reverse();
  const links = last.map((call) => h("button", { class: "quiet flow-link mono", onclick: () => revealCall(document.body, call.key) }, `${call.tool} ${formatTime(call.started_at)}`));
  return h("span", { class: "flow-asked" }, `${plural(session.asked_count, "time")}, last for `, links);
}

/** @param {SessionDetail} session */
function drawSourceCounts(session) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const source of session.sources) counts.set(source.label, (counts.get(source.label) ?? 0) + 1);
  if (counts.size === 0) return "nothing has entered the session";
  return h("span", { class: "badges" }, [...counts].map(([label, count]) => [drawLabel(label), h("span", { class: "number" }, `${formatCount(count)} `)]).flat());
}

/** @param {SessionDetail} session */
function drawTimeline(session) {
  const list = h("ol", { class: "flow-steps" });
  const firstShown = session.sources[0]?.number ?? 0;
  const byKey = new Map(session.sources.filter((source) => source.key !== null).map((source) => [source.key, source]));
  const own = session.sources.filter((source) => source.key === null || !session.calls.some((call) => call.key === source.key));
  const hidden = session.call_count - session.calls.length;
  if (hidden > 0 || firstShown > 0) list.append(h("li", { class: "flow-step gap" }, `${plural(hidden, "earlier call")} not shown`));
  let next = 0;
  let isTainted = false;
  for (const call of session.calls) {
    while (next < own.length && /** @type {SourceInFlow} */ (own[next]).number < call.source_count) {
      const source = /** @type {SourceInFlow} */ (own[next]);
      isTainted ||= isForeign(source.label);
      list.append(drawSource(source, isTainted));
      next += 1;
    }
    isTainted ||= call.was_tainted;
    const brought = byKey.get(call.key);
    list.append(drawCall(call, brought, isTainted));
    isTainted ||= brought !== undefined && isForeign(brought.label);
  }
  for (const source of own.slice(next)) {
    isTainted ||= isForeign(source.label);
    list.append(drawSource(source, isTainted));
  }
  if (list.childElementCount === 0) return h("p", { class: "hint" }, "No call of this session has run yet.");
  return list;
}

/**
 * @param {SourceInFlow} source
 * @param {boolean} isTainted
 */
function drawSource(source, isTainted) {
  const what = source.is_outside ? "Something that the journal does not have, such as a memory" : source.call_id === "" ? "The user said" : `Result of ${source.tool}`;
  return h(
    "li",
    { class: `flow-step source ${isTainted ? "tainted" : ""}`, id: `source-${source.number}`, tabindex: -1 },
    h("header", {}, drawTime(source.at), h("strong", {}, what), drawLabel(source.label), source.taints && drawTaintMark()),
    source.text !== "" && h("p", { class: `flow-text ${isForeign(source.label) ? "untrusted" : ""}`, tabindex: 0 }, source.text),
  );
}

/**
 * @param {CallInFlow} call
 * @param {SourceInFlow | undefined} brought
 * @param {boolean} isTainted
 */
function drawCall(call, brought, isTainted) {
  const state = call.was_asked ? badge("asked", "wait", "A person was asked before it ran") : badge("ran unasked", "quiet");
  const panel = h("div", { class: "flow-why" });
  const why = call.was_asked
    ? [drawReasons(call.reasons, call.was_asked), call.values.length > 0 && drawValues(call.values)]
    : [];
  const explain = h("details", { class: "flow-explain", id: `explain-${call.key}` }, h("summary", {}, call.was_asked ? "Judge it again" : "Why was nobody asked?"), panel);
  explain.addEventListener("toggle", () => {
    if (explain.open && panel.childElementCount === 0) void load(panel, get("/flow/call", { key: call.key }), drawDecision);
  });
  return h(
    "li",
    { class: `flow-step call ${isTainted ? "tainted" : ""} ${call.was_asked ? "asked" : ""}`, dataset: { key: call.key }, id: brought === undefined ? undefined : `source-${brought.number}`, tabindex: -1 },
    h(
      "header",
      {},
      drawTime(call.started_at),
      h("a", { class: "mono", href: buildPath("calls", call.key), title: call.tool_call_id }, call.tool),
      state,
      call.code !== null && call.code !== "needs_approval" && badge(formatCode(call.code), "error"),
      call.state !== "finished" && badge(call.state, call.state === "interrupted" ? "error" : "accent"),
      brought !== undefined && h("span", { class: "flow-brought" }, h("span", { class: "muted" }, "brought in"), drawLabel(brought.label), brought.taints && drawTaintMark()),
    ),
    why,
    brought !== undefined && brought.text !== "" && h("p", { class: `flow-text ${isForeign(brought.label) ? "untrusted" : ""}`, tabindex: 0 }, brought.text),
    explain,
  );
}

/** @param {string} moment */
function drawTime(moment) {
  return h("time", { class: "muted number", datetime: moment, title: formatExactTime(moment) }, formatTime(moment));
}

function drawTaintMark() {
  return badge("tainted the session", "error", "The first third-party content of the session");
}

/**
 * @param {string[]} reasons
 * @param {boolean} wasAsked
 */
function drawReasons(reasons, wasAsked) {
  if (reasons.length === 0) return wasAsked ? h("p", { class: "muted" }, "The tool always requires approval.") : null;
  return h("ul", { class: "flow-reasons" }, reasons.map((reason) => h("li", {}, reason)));
}

/** @param {ValueInFlow[]} values */
function drawValues(values) {
  const rows = values.map((value) =>
    h(
      "tr",
      { class: ["foreign", "nowhere"].includes(value.origin) ? "suspect" : "" },
      h("td", {}, h("code", {}, value.path), " ", h("span", { class: "muted" }, value.is_declared ? value.role : `${value.role}, undeclared`)),
      h("td", { class: "mono" }, value.value),
      h("td", {}, drawOrigin(value.origin), " ", value.source === null ? value.detail : h("button", { class: "quiet flow-link", onclick: () => reveal(`source-${value.source}`) }, value.detail)),
    ),
  );
  const head = ["Argument and role", "Value", "Where it comes from"].map((name) => h("th", { scope: "col" }, name));
  return h("div", { class: "flow-values", tabindex: 0, role: "region", "aria-label": "Values" }, h("table", { class: "data" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

/** @param {Decision} decision */
function drawDecision(decision) {
  const now = decision.would_ask ? badge("would be asked", "wait") : badge("would run unasked", "quiet");
  const answer = decision.answer;
  return [
    h(
      "p",
      {},
      "By the current policy and declarations it ",
      now,
      !decision.is_known && " The tool is gone, or its server is not connected: nothing is declared about it.",
      !decision.is_judged && " No policy judged it when it was made.",
    ),
    drawReasons(decision.reasons_now, decision.would_ask),
    answer !== null && h("p", { class: "muted" }, `Answer: ${answer.status}${answer.by === null ? "" : ` by ${answer.by}`}${answer.at === null ? "" : `, ${formatTime(answer.at)}`}`),
    decision.values.length > 0 ? drawValues(decision.values) : h("p", { class: "muted" }, "It has no values."),
  ];
}

/** @param {string} id */
function reveal(id) {
  const target = document.getElementById(id);
  if (target === null) return;
  target.scrollIntoView({ block: "center" });
  target.focus();
  target.classList.add("found");
  setTimeout(() => target.classList.remove("found"), 2000);
}

/**
 * Scroll to a call of a session that was drawn.
 * @param {HTMLElement} root
 * @param {string} key
 */
export function revealCall(root, key) {
  for (const step of root.querySelectorAll("[data-key]")) {
    if (!(step instanceof HTMLElement) || step.dataset["key"] !== key) continue;
    step.id ||= "found-call";
    reveal(step.id);
  }
}

