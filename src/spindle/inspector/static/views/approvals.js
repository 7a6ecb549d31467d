// @ts-check
// Approvals: the calls that wait for a person, and those that were answered. Every answer has a key.

import { get, isAborted } from "../api.js";
import { ChosenApproval } from "../approvals/answers.js";
import { describeStatus, formatLeft, reveal } from "../approvals/model.js";
import { h, isTyping } from "../dom.js";
import { formatTime } from "../format.js";
import { VirtualList } from "../list.js";
import { listen } from "../live.js";
import { badge, panes, showError } from "../parts.js";
import { buildPath } from "../router.js";
import { canNotify, isNotifying, setNotifying } from "../waiting.js";

/** @typedef {import("../approvals/model.js").Approval} Approval */
/** @typedef {"pending" | "answered"} Status */

const PAGE = 50;

/** Whether only one of the panes is shown. */
function isNarrow() {
  return matchMedia("(max-width: 900px)").matches;
}

class ApprovalsView {
  /**
   * @param {HTMLElement} root
   * @param {import("../router.js").Place} place
   */
  constructor(root, place) {
    /** @type {Status} */
    this.status = place.query.get("status") === "answered" ? "answered" : "pending";
    /** @type {string | null} */
    this.cursor = null;
    this.isLoading = false;
    this.loading = new AbortController();
    this.list = /** @type {VirtualList<Approval>} */ (
      new VirtualList({
        label: "Approvals",
        rowHeight: 48,
        draw: drawRow,
        getKey: (approval) => approval.id,
        getVersion: (approval) => approval.status,
        onOpen: (approval) => this.open(approval.id),
        onEnd: () => void this.loadMore(),
        empty: "No call waits for approval.",
      })
    );
    this.chosen = new ChosenApproval({ onBack: () => this.goBack(), onAnswered: (approval) => this.replaceItem(approval) });
    this.problem = h("div", { hidden: true });
    this.tabs = { pending: this.drawTab("pending", "Waiting"), answered: this.drawTab("answered", "Answered") };
    const first = h("div", {}, this.drawToolbar(), this.problem, this.list.element);
    this.panes = panes(first, h("div", {}, this.chosen.element));
    root.append(this.panes.element);
    this.stop = [listen("approvals", () => void this.refresh())];
    this.onKey = (/** @type {KeyboardEvent} */ event) => this.handleKey(event);
    document.addEventListener("keydown", this.onKey, true);
    const timer = setInterval(() => this.tick(), 1000);
    this.stop.push(() => clearInterval(timer));
    if (place.id !== null) this.open(place.id, false);
    void this.refresh();
  }

  unmount() {
    for (const stop of this.stop) stop();
    document.removeEventListener("keydown", this.onKey, true);
    this.loading.abort();
    this.chosen.close();
    this.list.close();
  }

  drawToolbar() {
    const notify = h("button", { class: "quiet", hidden: !canNotify(), "aria-pressed": "false" });
    const tell = (/** @type {boolean} */ isOn) => {
      notify.textContent = isOn ? "Notifications on" : "Notify me";
      notify.setAttribute("aria-pressed", String(isOn));
    };
    notify.addEventListener("click", () => void setNotifying(!isNotifying()).then(tell));
    tell(isNotifying());
    return h(
      "div",
      { class: "toolbar" },
      h("div", { class: "segments", role: "group", "aria-label": "Which approvals" }, this.tabs.pending, this.tabs.answered),
      h("div", { class: "right" }, notify),
    );
  }

  /**
   * @param {Status} status
   * @param {string} title
   */
  drawTab(status, title) {
    return h("button", { "aria-pressed": String(this.status === status), onclick: () => this.choose(status) }, title);
  }

  /** @param {Status} status */
  choose(status) {
    if (status === this.status) return;
    this.status = status;
    for (const [name, button] of Object.entries(this.tabs)) button.setAttribute("aria-pressed", String(name === status));
    this.list.empty.textContent = status === "pending" ? "No call waits for approval." : "Nothing was answered yet.";
    this.list.clear();
    // The chosen one is not in the other list.
    this.chosen.close();
    this.chosen.showNothing();
    this.panes.choose(false);
    history.replaceState(null, "", buildPath("approvals", null, { status: status === "answered" ? status : null }));
    void this.refresh();
  }

  /** Read the newest approvals again; the chosen one keeps its place, even after it was answered. */
  async refresh() {
    this.loading.abort();
    this.loading = new AbortController();
    try {
      const answer = /** @type {import("../approvals/model.js").ApprovalList} */ (
        await get("/approvals", { status: this.status, limit: PAGE }, this.loading.signal)
      );
      const items = answer.approvals;
      const at = this.list.selected;
      const kept = this.list.items[at];
      if (kept !== undefined && !items.some((item) => item.id === kept.id)) {
        items.splice(Math.min(at, items.length), 0, { ...kept });
        void this.chosen.read();
      }
      this.keepInSight(items);
      this.cursor = answer.next_cursor;
      this.list.setItems(items);
      if (this.chosen.id !== null && this.list.selected < 0) this.list.select(this.chosen.id);
      this.problem.hidden = true;
      if (this.chosen.detail?.approval.status === "executing") void this.chosen.read();
      if (this.chosen.id === null && items[0] !== undefined && !isNarrow()) this.open(items[0].id, false);
    } catch (error) {
      if (isAborted(error)) return;
      this.problem.replaceChildren(showError(error));
      this.problem.hidden = false;
    }
  }

  /**
   * Scroll by the rows that come in above what is in sight.
   * @param {Approval[]} items
   */
  keepInSight(items) {
    const { element, rowHeight } = this.list;
    const top = this.list.items[Math.floor(element.scrollTop / rowHeight)];
    const index = top === undefined ? -1 : items.findIndex((item) => item.id === top.id);
    const shift = index - Math.floor(element.scrollTop / rowHeight);
    if (index < 0 || element.scrollTop < rowHeight || shift <= 0) return;
    this.list.items = items;
    this.list.resize();
    element.scrollTop += shift * rowHeight;
  }

  async loadMore() {
    if (this.cursor === null || this.isLoading) return;
    this.isLoading = true;
    try {
      const signal = this.loading.signal;
      const answer = await get("/approvals", { status: this.status, limit: PAGE, cursor: this.cursor }, signal);
      if (signal.aborted) return;
      const known = new Set(this.list.items.map((item) => item.id));
      this.cursor = answer.next_cursor;
      this.list.setItems([...this.list.items, ...answer.approvals.filter((/** @type {Approval} */ item) => !known.has(item.id))]);
    } catch {
      this.cursor = null;
    } finally {
      this.isLoading = false;
    }
  }

  /** @param {Approval} approval */
  replaceItem(approval) {
    this.list.setItems(this.list.items.map((item) => (item.id === approval.id ? { ...item, ...approval } : item)));
  }

  /**
   * @param {string} id
   * @param {boolean} [isChosenByUser]
   */
  open(id, isChosenByUser = true) {
    this.list.select(id);
    this.list.reveal(Math.max(0, this.list.selected));
    const isAdded = isChosenByUser && isNarrow() && !this.panes.element.classList.contains("has-choice");
    this.panes.choose(isChosenByUser || this.panes.element.classList.contains("has-choice") || location.pathname.endsWith(encodeURIComponent(id)));
    const path = buildPath("approvals", id, { status: this.status === "answered" ? "answered" : null });
    if (isAdded) history.pushState(null, "", path); // where the list is left, the way back leads to it
    else if (isChosenByUser) history.replaceState(null, "", path);
    void this.chosen.show(id);
  }

  goBack() {
    this.panes.choose(false);
    history.replaceState(null, "", buildPath("approvals", null, { status: this.status === "answered" ? "answered" : null }));
    this.list.element.focus();
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") !== null) return;
    /** @type {Record<string, () => void>} */
    const actions = {
      j: () => this.move(1),
      ArrowDown: () => this.move(1),
      k: () => this.move(-1),
      ArrowUp: () => this.move(-1),
      a: () => void this.chosen.approve(),
      d: () => void this.chosen.deny(),
      e: () => this.chosen.edit(),
      Escape: () => this.goBack(),
    };
    const isArrow = event.key.startsWith("Arrow");
    const isInList = event.target instanceof Node && (event.target === document.body || this.list.element.contains(event.target) || event.target instanceof HTMLElement && event.target.id === "main");
    const action = isArrow && !isInList ? undefined : actions[event.key];
    if (action === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    // A key that is held down answers once.
    if (!event.repeat || event.key === "j" || event.key === "k" || isArrow) action();
  }

  /** @param {number} step */
  move(step) {
    const next = this.list.items[Math.min(this.list.items.length - 1, Math.max(0, this.list.selected + step))];
    if (next !== undefined && next.id !== this.chosen.id) {
      this.open(next.id, this.panes.element.classList.contains("has-choice"));
    }
  }

  tick() {
    for (const element of this.panes.element.querySelectorAll("[data-until]")) {
      const text = formatLeft(element.getAttribute("data-until") ?? "");
      if (element.textContent !== text) element.textContent = text;
    }
  }
}

/**
 * Return the arguments of a question; the reasons after them are shown with the chosen one.
 * @param {string} shown
 */
function shortenQuestion(shown) {
  const end = shown.lastIndexOf("}? Why: ");
  return shown.slice(0, end < 0 ? undefined : end + 1).replace(/^Run \S+ with /, "");
}

/** @param {Approval} approval */
function drawRow(approval) {
  const [text, tone] = describeStatus(approval);
  const when =
    approval.status === "pending"
      ? h("span", { class: "left number", dataset: { until: approval.expires_at } }, formatLeft(approval.expires_at))
      : h("span", { class: "muted number" }, formatTime(approval.answered_at ?? approval.created_at));
  return h(
    "div",
    { class: "approval-row" },
    h("div", { class: "line" }, h("strong", { class: "mono truncate" }, reveal(approval.tool)), approval.status !== "pending" && badge(text, tone), h("span", { class: "space" }), when),
    h("div", { class: "line muted mono truncate" }, shortenQuestion(approval.shown)),
  );
}

/** @type {import("../main.js").View} */
export default {
  mount(root, place) {
    const view = new ApprovalsView(root, place);
    return {
      unmount: () => view.unmount(),
      update(next) {
        if (next.id !== null) view.open(next.id, false);
        return next.id !== null;
      },
    };
  },
};
