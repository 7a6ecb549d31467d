// @ts-check
// The chosen approval: it is read, shown and answered. Nothing is answered that was not in sight for a moment.

import { ApiError, get, isAborted, isOperator, post } from "../api.js";
import { h, replace } from "../dom.js";
import { emptyState, showError, toast } from "../parts.js";
import { drawActions, drawFacts, drawHead, drawOutcome } from "./detail.js";
import { createEditor } from "./editor.js";

/** @typedef {import("./model.js").Detail} Detail */
/** @typedef {import("./model.js").Answered} Answered */

/** A key pressed sooner after an approval came into sight was meant for the one before. */
const LOOK_MS = 300;

export class ChosenApproval {
  /** @param {{onBack: () => void, onAnswered: (approval: import("./model.js").Approval) => void}} options */
  constructor(options) {
    this.options = options;
    this.element = h("div", { class: "chosen" });
    /** @type {Detail | null} */
    this.detail = null;
    /** @type {import("./model.js").Outcome | null} */
    this.outcome = null;
    /** @type {import("./editor.js").Editor | null} */
    this.editor = null;
    /** @type {string | null} */
    this.id = null;
    this.isBusy = false;
    this.shownAt = 0;
    this.reading = new AbortController();
    this.showNothing();
  }

  close() {
    this.reading.abort();
  }

  showNothing() {
    this.id = null;
    this.detail = null;
    this.editor = null;
    replace(this.element, emptyState("No approval is chosen", h("p", {}, "Calls that need a person’s approval wait here until someone answers."), h("p", {}, "To see one, run a ", h("a", { href: "/page/tools" }, "tool"), " with “Ask for approval first”.")));
  }

  /** @param {string} id */
  async show(id) {
    if (id === this.id && this.detail !== null) return;
    this.id = id;
    this.detail = null;
    this.outcome = null;
    this.editor = null;
    this.isBusy = false;
    await this.read();
  }

  /**
   * Read the approval again, for example after it was answered elsewhere; an answer of our own brings it anyway.
   * @param {boolean} [isForced]
   */
  async read(isForced = false) {
    const id = this.id;
    if (id === null || (this.isBusy && !isForced)) return;
    this.reading.abort();
    this.reading = new AbortController();
    try {
      const detail = /** @type {Detail} */ (await get("/approvals/{id}", { id }, this.reading.signal));
      if (id !== this.id || (this.isBusy && !isForced)) return;
      const isNew = this.detail === null;
      const isSame = this.detail?.approval.status === detail.approval.status;
      this.detail = detail;
      if (isNew) this.shownAt = performance.now();
      if (this.editor !== null && isSame) return; // what is typed stays
      if (!isSame) this.editor = null;
      this.draw();
    } catch (error) {
      if (!isAborted(error) && id === this.id) replace(this.element, h("div", { class: "detail" }, showError(error)));
    }
  }

  draw() {
    const detail = this.detail;
    if (detail === null) return;
    const actions = { approve: () => void this.approve(), deny: () => void this.deny(), edit: () => this.edit() };
    replace(
      this.element,
      h(
        "article",
        { class: "detail", "aria-label": "Approval" },
        drawHead(detail, this.options.onBack),
        this.editor?.element,
        drawOutcome(detail, this.outcome),
        this.editor === null && drawFacts(detail),
      ),
      this.editor === null && drawActions(detail, actions, this.isBusy),
    );
  }

  /** Whether an answer may be given now; a key that comes too soon was meant for something else. */
  canAnswer() {
    if (this.detail === null || this.detail.approval.status !== "pending" || this.isBusy || !isOperator) return false;
    if (performance.now() - this.shownAt >= LOOK_MS) return true;
    toast("This one has just come into sight; press again");
    return false;
  }

  edit() {
    const detail = this.detail;
    if (detail === null || !this.canAnswer() || detail.tool_state !== "same" || this.editor !== null) return;
    this.editor = createEditor(detail, {
      onApprove: (args) => void this.answer("approve", { args }),
      onCancel: () => {
        this.editor = null;
        this.draw();
      },
    });
    this.draw();
    this.editor.focus();
  }

  async approve() {
    if (this.editor === null && this.canAnswer() && this.detail?.tool_state === "same") await this.answer("approve", {});
  }

  async deny() {
    if (this.editor === null && this.canAnswer()) await this.answer("deny", {});
  }

  /**
   * @param {"approve" | "deny"} answer
   * @param {object} body
   */
  async answer(answer, body) {
    const id = this.id;
    if (id === null || this.isBusy) return;
    this.isBusy = true;
    const editor = this.editor;
    if (editor === null) this.draw();
    else editor.setBusy(true);
    try {
      const answered = /** @type {Answered} */ (await post(`/approvals/{id}/${answer}`, { id }, body));
      if (answered.approval.status === "pending") throw new ApiError(answered.outcome.error ?? "The call was not run.", 200, answered.outcome.code ?? "", undefined);
      this.options.onAnswered(answered.approval);
      toast(`${answer === "approve" ? "Approved" : "Denied"}: ${answered.approval.tool}`);
      if (id !== this.id || this.detail === null) return;
      this.detail = { ...this.detail, approval: answered.approval, ran_text: answered.ran_text, call: answered.call };
      this.outcome = answer === "approve" ? answered.outcome : null;
      this.editor = null;
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (id !== this.id) toast(message, "error");
      else if (editor !== null && editor === this.editor && !(error instanceof ApiError && error.status === 409)) editor.complain(message);
      else {
        toast(message, "error");
        this.editor = null;
        await this.read(true);
      }
    } finally {
      if (id === this.id) {
        this.isBusy = false;
        if (this.editor === null) this.draw();
        else this.editor.setBusy(false);
      }
    }
  }
}
