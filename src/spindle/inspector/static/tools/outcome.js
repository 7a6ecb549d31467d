// @ts-check
// What became of a call: its status, exactly what a model sees of it, structured content, media, and what was kept.

import { get } from "../api.js";
import { h, replace } from "../dom.js";
import { formatBytes, formatCode, formatDuration, plural } from "../format.js";
import { badge, codeBlock, facts, load, tabs } from "../parts.js";
import { buildPath } from "../router.js";
import { makeId } from "./fields.js";

/**
 * @typedef {object} Outcome
 * @property {boolean} ok
 * @property {string | null} code
 * @property {string | null} error
 * @property {string | null} field
 * @property {number} duration_ms
 * @property {number} attempts
 * @property {string | null} label
 * @property {number | null} cost_usd
 * @property {{path: string, message: string}[]} problems
 * @property {string | null} structured
 * @property {boolean} is_structured_cut
 * @property {{id: string, kind: string, mime_type: string, filename: string}[]} media
 * @property {{id: string | null, bytes: number | null, lines: number | null} | null} artifact
 * @property {string | null} approval_id
 * @property {string | null} approval_status
 */
/**
 * @typedef {object} Trial
 * @property {string} id
 * @property {string} tool
 * @property {"running" | "finished" | "cancelled"} state
 * @property {number} version
 * @property {boolean} dry_run
 * @property {string} started_at
 * @property {{message: string, percent: number | null}[]} notes
 * @property {Outcome | null} outcome
 * @property {string | null} call_key
 */

const DIALECT = "spindle.tools.dialect";

/**
 * Draw the outcome of a trial.
 * @param {Trial} trial
 * @param {string[]} dialects
 */
export function drawOutcome(trial, dialects) {
  const { outcome } = trial;
  if (outcome === null) return h("div", { class: "trial-outcome" }, h("div", { class: "outcome-head" }, badge("cancelled", "warn"), linkCall(trial)));
  const element = h("div", { class: "trial-outcome" }, drawHead(trial, outcome));
  if (outcome.approval_id !== null) element.append(drawApproval(outcome, trial));
  if (outcome.artifact !== null) element.append(drawArtifact(outcome.artifact));
  const content = [{ id: "model", title: "What the model sees", draw: (/** @type {HTMLElement} */ panel) => drawModelView(panel, trial, dialects) }];
  if (outcome.structured !== null) {
    const text = outcome.structured;
    content.push({
      id: "structured",
      title: "Structured content",
      draw: (panel) => panel.append(codeBlock(text, { label: "Structured content" }), outcome.is_structured_cut ? h("p", { class: "hint" }, "It is longer than shown here.") : ""),
    });
  }
  if (outcome.media.length > 0) {
    content.push({
      id: "media",
      title: plural(outcome.media.length, "medium", "media"),
      draw: (panel) => panel.append(...outcome.media.map((each) => facts([["Kind", each.kind], ["Type", each.mime_type], ["File name", each.filename], ["Id", h("code", {}, each.id)]]))),
    });
  }
  content.push({ id: "wire", title: "On the wire", draw: (panel) => drawWire(panel, trial, dialects) });
  element.append(tabs("Outcome", content));
  return element;
}

/**
 * @param {Trial} trial
 * @param {Outcome} outcome
 */
function drawHead(trial, outcome) {
  const tone = outcome.ok ? "ok" : outcome.code === "needs_approval" ? "wait" : "error";
  return h(
    "div",
    { class: "outcome-head" },
    badge(outcome.ok ? (trial.dry_run ? "dry run" : "ok") : formatCode(outcome.code ?? "failed"), tone),
    h("span", { class: "muted" }, `in ${formatDuration(outcome.duration_ms)}`),
    outcome.attempts === 0 && !trial.dry_run && h("span", { class: "muted" }, "did not run"),
    outcome.attempts > 1 && h("span", { class: "muted" }, `${outcome.attempts} attempts`),
    outcome.label !== null && badge(outcome.label, outcome.label === "trusted" ? "ok" : "quiet", "How far the result is trusted"),
    outcome.cost_usd !== null && h("span", { class: "muted" }, `$${outcome.cost_usd}`),
    linkCall(trial),
  );
}

/** @param {Trial} trial */
function linkCall(trial) {
  return trial.call_key !== null && h("a", { href: buildPath("calls", trial.call_key) }, "Open the recorded call");
}

/**
 * @param {Outcome} outcome
 * @param {Trial} trial
 */
function drawApproval(outcome, trial) {
  const path = buildPath("approvals", outcome.approval_id);
  if (outcome.approval_status === "finished" || outcome.approval_status === "executing") {
    return h("div", { class: "callout ok", role: "status" }, "A person has approved this call. ", trial.call_key === null ? h("a", { href: path }, "Open the approval") : linkCall(trial) || "");
  }
  if (outcome.approval_status !== null && outcome.approval_status !== "pending") {
    return h("div", { class: "callout", role: "status" }, `The approval is ${outcome.approval_status}. `, h("a", { href: path }, "Open the approval"));
  }
  return h("div", { class: "callout wait", role: "status" }, "This call waits for a person's approval. ", h("a", { class: "button", href: path }, "Open the approval"));
}

/** @param {NonNullable<Outcome["artifact"]>} artifact */
function drawArtifact(artifact) {
  const size = artifact.bytes === null ? "of unknown size" : `${formatBytes(artifact.bytes)}, ${plural(artifact.lines ?? 0, "line")}`;
  if (artifact.id === null) return h("div", { class: "callout" }, `The result is longer than a model gets (${size}), and was not stored.`);
  return h(
    "div",
    { class: "callout accent" },
    `The whole result is kept: ${size}. The model sees a part and can read the rest. `,
    h("a", { class: "button", href: buildPath("artifacts", artifact.id), title: artifact.id }, "Read and search it"),
  );
}

/**
 * @param {HTMLElement} panel
 * @param {Trial} trial
 * @param {string[]} dialects
 * @param {(rendering: any) => HTMLElement} draw
 */
function drawWithDialect(panel, trial, dialects, draw) {
  const target = h("div", { class: "rendering" });
  const select = h("select", { id: makeId(), title: "The API or protocol by which the model gets the result" }, dialects.map((each) => h("option", { value: each }, each)));
  const known = sessionStorage.getItem(DIALECT) ?? "mcp";
  select.value = dialects.includes(known) ? known : (dialects[0] ?? "");
  const show = () => {
    sessionStorage.setItem(DIALECT, select.value);
    void load(target, get("/trials/{id}/rendering", { id: trial.id, dialect: select.value }), draw);
  };
  select.addEventListener("change", show);
  panel.append(h("div", { class: "rendering-head" }, h("label", { class: "muted", for: select.id }, "Dialect"), select), target);
  show();
}

/**
 * @param {HTMLElement} panel
 * @param {Trial} trial
 * @param {string[]} dialects
 */
function drawModelView(panel, trial, dialects) {
  drawWithDialect(panel, trial, dialects, (rendering) => {
    const body = h("div", {});
    for (const part of rendering.parts) {
      if (part.kind === "text") body.append(drawText(part.spans));
      else body.append(h("p", { class: "media-part" }, badge(part.media.kind), ` ${part.media.mime_type} ${part.media.filename}`));
    }
    if (rendering.parts.length === 0) body.append(h("p", { class: "hint" }, "Nothing."));
    if (rendering.is_shortened) body.append(h("p", { class: "hint" }, "More was sent than is shown here."));
    return body;
  });
}

/** @param {{role: string, text: string}[]} spans */
function drawText(spans) {
  const block = h("pre", { class: "model-text", tabindex: 0, "aria-label": "What the model sees" });
  for (const span of spans) {
    if (span.role === "plain") block.append(span.text);
    else if (span.role === "tag") block.append(h("span", { class: "fence-tag", title: "The fence: it shows the model where a tool's content begins and ends" }, span.text));
    // Drawn as a block of its own, which stands for the line breaks after and before the tags.
    else block.append(h("span", { class: `fenced ${span.role}` }, span.text.replace(/^\n|\n$/g, "")));
  }
  return block;
}

/**
 * @param {HTMLElement} panel
 * @param {Trial} trial
 * @param {string[]} dialects
 */
function drawWire(panel, trial, dialects) {
  drawWithDialect(panel, trial, dialects, (rendering) => codeBlock(rendering.wire, { label: "Message" }));
}

/**
 * Draw a trial that is running: its progress, and a button that cancels it.
 * @param {HTMLElement} target
 * @param {Trial} trial
 * @param {() => void} onCancel
 */
export function drawRunning(target, trial, onCancel) {
  const last = trial.notes.at(-1);
  const percent = [...trial.notes].reverse().find((each) => each.percent !== null)?.percent ?? null;
  replace(
    target,
    h(
      "div",
      { class: "trial-outcome running" },
      h("div", { class: "outcome-head", role: "status" }, badge("running", "accent"), h("progress", percent === null ? { "aria-label": "Running" } : { max: 100, value: percent, "aria-label": "Progress" }), percent !== null && h("span", { class: "muted" }, `${percent.toFixed(0)} %`), h("button", { onclick: onCancel }, "Cancel")),
      last !== undefined && h("p", { class: "hint" }, last.message),
    ),
  );
}
