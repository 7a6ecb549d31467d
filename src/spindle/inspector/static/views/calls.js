// @ts-check
// The calls of the journal, live: a list with filters, one call, and two calls side by side.

import { get } from "../api.js";
import { drawComparison } from "../calls/compare.js";
import { drawDetail, readDetail } from "../calls/detail.js";
import { CallFeed } from "../calls/feed.js";
import { drawFilters } from "../calls/filters.js";
import { describeState, hasFilters, readFilters } from "../calls/model.js";
import { h, isTyping, replace } from "../dom.js";
import { formatCount, formatDuration, formatTime, plural } from "../format.js";
import { VirtualList } from "../list.js";
import { listen } from "../live.js";
import { badge, debounce, load, panes, showError } from "../parts.js";
import { buildPath, go, setQuery } from "../router.js";

/** @typedef {import("../calls/feed.js").ListedCall} ListedCall */

/** @type {import("../main.js").View} */
export default {
  mount(root, place) {
    const view = new CallsView(root, place);
    return { unmount: () => view.close(), update: (next) => view.update(next) };
  },
};

class CallsView {
  /**
   * @param {HTMLElement} root
   * @param {import("../router.js").Place} place
   */
  constructor(root, place) {
    this.filters = readFilters(place.query);
    /** @type {string | null} */
    this.opened = null;
    /** The call that the opened one is compared with. @type {string | null} */
    this.compared = null;
    this.isPaused = false;
    this.abort = new AbortController();
    this.list = new VirtualList({
      label: "Calls",
      rowHeight: 28,
      phoneRowHeight: 48,
      draw: drawRow,
      getKey: (/** @type {ListedCall} */ call) => call.key,
      getVersion: (/** @type {ListedCall} */ call) => `${call.cursor} ${call.version}`,
      onEnd: () => void this.feed.loadMore(),
      onOpen: (/** @type {ListedCall} */ call) => go(buildPath("calls", call.key, this.filters)),
      empty: "No calls yet. Try a tool under Tools, or connect an MCP client.",
    });
    this.list.element.addEventListener("scroll", () => this.showWaiting());
    this.status = h("span", { class: "right", role: "status" });
    this.newer = h("button", { class: "newer primary", hidden: true, onclick: () => this.showNewest() });
    this.pause = h("button", { class: "quiet live", "aria-pressed": "true", title: "Show new calls as they come", onclick: () => this.togglePause() }, "Live");
    this.problem = h("div", { class: "list-problem" });
    this.more = h("button", { class: "search-on", hidden: true, onclick: () => this.feed.searchOn() });
    const first = h(
      "section",
      { "aria-label": "List of calls" },
      drawFilters(this.filters, (filters) => this.setFilters(filters)),
      h("div", { class: "call-bar" }, this.pause, this.status),
      drawHead(),
      this.problem,
      h("div", { class: "list-frame" }, this.list.element, this.newer),
      this.more,
    );
    this.detail = h("section", { "aria-label": "Call" });
    this.panes = panes(first, this.detail);
    this.panes.element.classList.add("wide-list");
    root.append(this.panes.element);
    this.feed = this.startFeed();
    this.redraw = debounce(() => this.openDetail(), 300);
    this.stop = listen("calls", (/** @type {import("../calls/feed.js").CallMessage} */ message) => this.receive(message));
    this.onKey = (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Escape" && this.opened !== null && !isTyping(event) && document.querySelector("dialog[open]") === null) this.closeDetail();
    };
    document.addEventListener("keydown", this.onKey);
    this.update(place);
  }

  close() {
    this.stop();
    this.feed.close();
    this.abort.abort();
    this.list.close();
    document.removeEventListener("keydown", this.onKey);
  }

  /**
   * Show another place of this view; other filters than those shown need a new one.
   * @param {import("../router.js").Place} place
   */
  update(place) {
    if (JSON.stringify(readFilters(place.query)) !== JSON.stringify(this.filters)) return false;
    this.opened = place.id;
    this.compared = place.query.get("compare");
    this.list.select(place.id);
    this.panes.choose(place.id !== null);
    this.panes.element.classList.toggle("is-comparing", place.id !== null && this.compared !== null);
    this.openDetail();
    return true;
  }

  startFeed() {
    const feed = new CallFeed(this.filters, {
      onItems: (items) => {
        this.list.setItems(items);
        if (this.opened !== null) this.list.select(this.opened);
        this.showStatus();
      },
      onNewer: (newer) => this.addNewer(newer),
      onChange: () => this.list.schedule(),
      onError: (error) => {
        if (!feed.abort.signal.aborted) replace(this.problem, showError(error));
      },
    });
    replace(this.problem);
    this.list.clear();
    this.list.element.scrollTop = 0;
    this.list.empty.textContent = hasFilters(this.filters) ? "No call matches." : "No calls yet. Try a tool under Tools, or connect an MCP client.";
    this.list.element.setAttribute("aria-busy", "true");
    void feed.start().finally(() => this.list.element.removeAttribute("aria-busy"));
    return feed;
  }

  /** @param {import("../calls/model.js").Filters} filters */
  setFilters(filters) {
    this.filters = readFilters(new URLSearchParams(Object.entries(filters)));
    setQuery({ ...this.filters, compare: this.compared });
    this.feed.close();
    this.feed = this.startFeed();
    this.showWaiting();
  }

  /** @param {import("../calls/feed.js").CallMessage} message */
  receive(message) {
    this.feed.receive(message);
    if (this.opened !== null && message.calls.some((call) => call.key === this.opened)) this.redraw();
  }

  /** @param {ListedCall[]} newer */
  addNewer(newer) {
    this.feed.waiting = [...newer, ...this.feed.waiting];
    this.showWaiting();
  }

  /** Show new calls, or how many there are while the user looks at others. */
  showWaiting() {
    const { waiting } = this.feed;
    const isAtTop = this.list.element.scrollTop < this.list.rowHeight;
    if (waiting.length > 0 && isAtTop && !this.isPaused) {
      this.feed.waiting = [];
      this.feed.prepend(waiting);
      this.list.setItems(this.feed.items);
    }
    const count = this.feed.waiting.length;
    this.newer.hidden = count === 0;
    this.newer.textContent = `${plural(count, "new call")} ↑`;
    this.showStatus();
  }

  showNewest() {
    this.list.element.scrollTop = 0;
    this.isPaused = false;
    this.pause.setAttribute("aria-pressed", "true");
    this.showWaiting();
  }

  togglePause() {
    this.isPaused = !this.isPaused;
    this.pause.setAttribute("aria-pressed", String(!this.isPaused));
    this.showWaiting();
  }

  showStatus() {
    const { items, isComplete, scanned, canSearchOn } = this.feed;
    const searched = hasFilters(this.filters) && scanned !== null ? ` of ${formatCount(scanned)} searched` : "";
    this.status.textContent = `${isComplete ? plural(items.length, "call") : `${formatCount(items.length)}+ calls`}${searched}`;
    this.more.hidden = !canSearchOn;
    this.more.textContent = `Nothing more in the last ${scanned === null ? "" : `${formatCount(scanned)} `}calls. Search on`;
  }

  closeDetail() {
    go(buildPath("calls", null, this.filters));
    this.list.element.focus();
  }

  openDetail() {
    this.abort.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    const key = this.opened;
    if (key === null) {
      replace(this.detail);
      return;
    }
    const query = /** @type {Record<string, string>} */ (this.filters);
    const close = () => this.closeDetail();
    if (this.compared !== null) {
      void load(this.detail, get("/calls/compare", { left: this.compared, right: key }, signal), (comparison) => drawComparison(comparison, { query, close }));
    } else {
      void load(this.detail, readDetail(key, signal), (detail) => drawDetail(detail, { query, close, redraw: () => this.openDetail() }));
    }
  }
}

function drawHead() {
  return h(
    "div",
    { class: "call-head", "aria-hidden": true },
    h("span", { class: "time" }, "Started"),
    h("span", { class: "state" }, "State"),
    h("span", { class: "tool" }, "Tool"),
    h("span", { class: "grow" }, "Arguments"),
    h("span", { class: "chars number" }, "Characters"),
    h("span", { class: "took number" }, "Time"),
  );
}

/** @param {ListedCall} call */
function formatTook(call) {
  if (call.duration_ms === null) return call.state === "started" ? "…" : "–";
  return call.attempts === 0 ? "–" : formatDuration(call.duration_ms);
}

/** @param {ListedCall} call */
function drawRow(call) {
  const [state, tone] = describeState(call);
  const error = call.code === "needs_approval" ? null : call.error; // the state says it already
  return h(
    "div",
    { class: "call-row" },
    h("span", { class: "time muted", title: call.started_at }, formatTime(call.started_at)),
    h("span", { class: "state" }, badge(state, tone, call.error ?? undefined)),
    h("span", { class: "tool truncate mono", title: call.tool }, call.tool),
    h("span", { class: "grow what" }, h("span", { class: "truncate mono muted" }, call.args), error !== null && h("span", { class: "truncate failed" }, error)),
    h("span", { class: "chars number muted" }, call.result_chars === null ? "" : formatCount(call.result_chars)),
    h("span", { class: "took number" }, formatTook(call)),
  );
}
