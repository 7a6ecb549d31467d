// @ts-check
// Try a tool: the form or JSON, a dry run, the run, and its outcome.

import { ApiError, get, isAborted, isOperator, post } from "../api.js";
import { h, isTyping, replace } from "../dom.js";
import { findInexact } from "../exact.js";
import { toJson } from "../format.js";
import { ask, showError, tabs } from "../parts.js";
import { buildForm, focusFirst, parsePath } from "./form.js";
import { drawOutcome, drawRunning } from "./outcome.js";
import { clip } from "./schema.js";

/** @typedef {import("./outcome.js").Trial} Trial */

const WAIT_SECONDS = 15;
const POLL_MS = 3000;

/**
 * What was entered and run last, by the name of the tool: a look at the result elsewhere does not lose it. It is only in
 * the memory of the page, for it may have secrets.
 * @type {Map<string, {mode: string, args: string, asks: boolean, trial: string}>}
 */
const KEPT = new Map();
const MAX_KEPT = 20;

/** The form of one tool and the calls that are made with it. */
export class TrialPanel {
  /**
   * @param {any} detail    the answer about the tool
   * @param {string[]} dialects
   */
  constructor(detail, dialects) {
    this.detail = detail;
    this.dialects = dialects;
    this.form = buildForm(detail.input_schema, detail.secret_fields);
    this.mode = this.form === null ? "json" : "form";
    this.closed = new AbortController();
    this.tried = "";
    this.shown = "";
    this.started = "";
    this.isBusy = false;
    /** @type {import("./fields.js").Field[]} */
    this.marked = [];
    this.problem = h("div", { class: "trial-problem" });
    this.result = h("div", { class: "trial-result", "aria-live": "polite" });
    this.json = h("textarea", { class: "json-editor", rows: 10, spellcheck: "false", "aria-label": "Arguments as JSON" });
    this.json.value = "{}";
    this.formPanel = h("form", { class: "form-panel", autocomplete: "off", onsubmit: (/** @type {Event} */ event) => event.preventDefault() }, this.form?.element);
    this.asks = h("input", { type: "checkbox", id: "ask-first" });
    this.dry = h("button", { type: "button", onclick: () => void this.run(true) }, "Dry run");
    this.go = h("button", { type: "button", onclick: () => void this.run(false), title: "Ctrl+Enter" }, "Run");
    this.element = this.draw();
    const examples = this.listExamples();
    if (examples[0] !== undefined && detail.examples.length > 0) this.fill(examples[0]);
  }

  /** Stop following the calls; they go on. What was run stays known for the way back. */
  close() {
    this.closed.abort();
    const { name } = this.detail.tool;
    KEPT.delete(name);
    if (this.started === "") return;
    const args = this.mode === "json" || this.form === null ? this.json.value : toJson(this.form.get());
    KEPT.set(name, { mode: this.mode, args, asks: this.asks.checked, trial: this.started });
    const oldest = KEPT.keys().next().value;
    if (KEPT.size > MAX_KEPT && oldest !== undefined) KEPT.delete(oldest);
  }

  /** Show again what was entered and run before the tool was left. */
  async restore() {
    const kept = KEPT.get(this.detail.tool.name);
    if (kept === undefined) return;
    if (kept.mode === "form" && this.form !== null) this.fillText(kept.args);
    else {
      this.choose("json");
      this.json.value = kept.args;
    }
    this.asks.checked = kept.asks;
    this.started = kept.trial;
    try {
      const trial = await get("/trials/{id}", { id: kept.trial }, this.closed.signal);
      if (this.started === kept.trial) await this.follow(trial);
    } catch (error) {
      if (!isAborted(error) && !(error instanceof ApiError)) throw error; // the server keeps only the last ones
    }
  }

  draw() {
    const { detail } = this;
    const entries = [];
    if (this.form !== null) entries.push({ id: "form", title: "Form", draw: (/** @type {HTMLElement} */ panel) => this.showForm(panel) });
    entries.push({ id: "json", title: "JSON", draw: (/** @type {HTMLElement} */ panel) => this.showJson(panel) });
    const buttons = h(
      "div",
      { class: "trial-buttons" },
      detail.tool.is_read_only ? [this.go, this.dry] : [this.dry, this.go],
      h("label", { class: "check", for: "ask-first", title: "The call waits under Approvals until a person approves it" }, this.asks, " Ask for approval first"),
    );
    this.suggest(detail.tool.is_read_only ? this.go : this.dry);
    const element = h("div", { class: "trial" }, this.drawExamples(), tabs("Arguments", entries), this.problem);
    if (!isOperator) element.append(h("p", { class: "hint" }, "This login is a viewer: it cannot make calls."));
    else if (!detail.tool.is_available) element.append(h("div", { class: "notice" }, "This tool is not available now."), buttons);
    else element.append(buttons);
    element.append(this.result);
    element.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && isOperator && (event.ctrlKey || event.metaKey || (isTyping(event) && event.target instanceof HTMLInputElement && event.target.type !== "file"))) {
        event.preventDefault();
        void this.run(false);
      }
    });
    return element;
  }

  /** @returns {unknown[]} */
  listExamples() {
    const { input_schema: schema, examples } = this.detail;
    const own = Array.isArray(schema?.examples) ? schema.examples : [];
    return [...examples, ...own].filter((each) => typeof each === "object" && each !== null).slice(0, 6);
  }

  drawExamples() {
    const examples = this.listExamples();
    if (examples.length === 0) return null;
    const chips = examples.map((each) => h("button", { type: "button", class: "example", onclick: () => this.fill(each) }, clip(JSON.stringify(each), 80)));
    return h("div", { class: "examples" }, h("span", { class: "muted" }, "Examples"), chips);
  }

  /**
   * Put arguments into the form, or into JSON if the form cannot show them.
   * @param {unknown} args
   */
  fill(args) {
    this.json.value = toJson(args);
    if (this.form !== null && this.mode === "form" && !this.form.set(args)) this.choose("json");
    this.markProblems([]);
  }

  /**
   * Put arguments into the form, or into JSON if the form would change their numbers.
   * @param {string} text  as JSON
   */
  fillText(text) {
    if (findInexact(text) === null) this.fill(JSON.parse(text));
    else {
      this.choose("json");
      this.json.value = text;
      this.markProblems([]);
    }
  }

  /** @param {string} id */
  choose(id) {
    const tab = this.element?.querySelector(`[data-tab="${id}"]`);
    if (tab instanceof HTMLElement) tab.click();
  }

  /** @param {HTMLElement} panel */
  showForm(panel) {
    if (this.form === null) return;
    if (this.mode === "json") {
      /** @type {string | null} */
      let reason = null;
      try {
        const value = JSON.parse(this.json.value);
        const inexact = findInexact(this.json.value);
        if (inexact !== null) reason = `The form would change the number ${clip(inexact, 40)}. It is kept as JSON.`;
        else if (!this.form.set(value)) reason = "The form cannot show all of this value. It is kept as JSON.";
      } catch (error) {
        reason = `This is not JSON: ${error instanceof Error ? error.message : ""}`;
      }
      if (reason !== null) {
        panel.append(h("div", { class: "notice" }, reason, " ", h("button", { type: "button", onclick: () => this.choose("json") }, "Back to JSON")));
        return;
      }
    }
    this.mode = "form";
    panel.append(this.formPanel);
  }

  /** @param {HTMLElement} panel */
  showJson(panel) {
    if (this.mode === "form" && this.form !== null) this.json.value = toJson(this.form.get());
    this.mode = "json";
    panel.append(this.json);
  }

  /** @returns {string | null} the arguments as JSON, or null if a field is wrong */
  read() {
    if (this.mode === "json" || this.form === null) return this.json.value;
    const value = this.form.get();
    const wrong = this.formPanel.querySelector("[data-bad]");
    if (wrong instanceof HTMLElement) {
      wrong.focus();
      return null;
    }
    return JSON.stringify(value) ?? "{}";
  }

  /** @param {boolean} isDry */
  async run(isDry) {
    if (this.isBusy) return;
    const args = this.read();
    if (args === null) return;
    const { tool } = this.detail;
    if (!isDry && !this.asks.checked && !tool.is_read_only && this.tried !== args && (tool.is_destructive || tool.needs_approval === false)) {
      const isSure = await ask({
        title: `Run ${clip(tool.name, 80)}?`,
        content: h("p", {}, tool.is_destructive ? "Its effect cannot be undone. " : "It can change something. ", "A dry run shows first what would happen."),
        instead: { title: "Dry run", run: () => void this.run(true) },
        confirm: "Run",
        tone: tool.is_destructive ? "danger" : "primary",
      });
      if (!isSure) return;
    }
    this.markProblems([]);
    this.setBusy(true);
    try {
      const trial = await post("/trials", {}, { tool: tool.name, args, dry_run: isDry, ask: !isDry && this.asks.checked }, this.closed.signal);
      this.started = trial.id;
      if (isDry) this.tried = args;
      await this.follow(trial);
    } catch (error) {
      if (!isAborted(error)) replace(this.result, showError(error));
    } finally {
      this.setBusy(false);
    }
  }

  /**
   * Make one button the obvious next step: for a tool that can change something, a dry run before the run.
   * @param {HTMLButtonElement} next
   */
  suggest(next) {
    for (const button of [this.go, this.dry]) button.classList.toggle("primary", button === next);
  }

  /** @param {boolean} isBusy */
  setBusy(isBusy) {
    this.isBusy = isBusy;
    // Not `disabled`: a button that has the focus would lose it.
    for (const button of [this.go, this.dry]) button.setAttribute("aria-disabled", String(isBusy));
  }

  /** @param {Trial} started */
  async follow(started) {
    let trial = started;
    let isFirst = true;
    while (trial.state === "running") {
      // A call that ends at once shows no progress in between.
      if (!isFirst) drawRunning(this.result, trial, () => void this.cancel(trial.id));
      const wait = isFirst ? 0.4 : WAIT_SECONDS;
      trial = await get("/trials/{id}", { id: trial.id, seen: trial.version, wait_seconds: wait }, this.closed.signal);
      isFirst = false;
    }
    this.show(trial);
    void this.followApproval(trial);
  }

  /** @param {string} id */
  async cancel(id) {
    try {
      await post("/trials/{id}/cancel", { id }, {});
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
  }

  /** @param {Trial} trial */
  show(trial) {
    replace(this.result, drawOutcome(trial, this.dialects));
    this.markProblems(trial.outcome?.problems ?? []);
    this.shown = trial.id;
    const isGood = trial.outcome?.ok ?? false;
    this.dry.classList.toggle("done", trial.dry_run && isGood);
    if (trial.dry_run && isGood) this.suggest(this.go);
    else if (!this.detail.tool.is_read_only) this.suggest(this.dry);
  }

  /**
   * Show when a waiting call is answered.
   * @param {Trial} trial
   */
  async followApproval(trial) {
    let known = trial.outcome?.approval_status;
    while (trial.outcome?.approval_id && known === "pending" && this.shown === trial.id && !this.closed.signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      if (document.hidden || this.closed.signal.aborted || this.shown !== trial.id) continue;
      try {
        const next = await get("/trials/{id}", { id: trial.id }, this.closed.signal);
        known = next.outcome?.approval_status;
        if (known !== "pending") this.show(next);
      } catch {
        return;
      }
    }
  }

  /** @param {{path: string, message: string}[]} problems */
  markProblems(problems) {
    for (const each of this.marked) each.mark(null);
    this.marked = [];
    const rest = [];
    for (const { path, message } of problems) {
      const field = this.mode === "form" ? (this.form?.at(parsePath(path)) ?? null) : null;
      if (field === null || path === "") rest.push(`${path === "" ? "" : `${path}: `}${message}`);
      else {
        field.mark(message);
        this.marked.push(field);
      }
    }
    replace(this.problem, rest.length > 0 && h("div", { class: "problem", role: "alert" }, rest.map((text) => h("p", {}, text))));
    const first = this.marked[0]?.element;
    first?.scrollIntoView({ block: "nearest" });
    if (first !== undefined) focusFirst(first);
  }
}
