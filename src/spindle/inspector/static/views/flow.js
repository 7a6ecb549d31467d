// @ts-check
// Flow: the sessions with their taint, and the chosen one as a timeline from sources to calls.

import { get, isAborted } from "../api.js";
import { h, replace } from "../dom.js";
import { formatExactTime, formatTime } from "../format.js";
import { VirtualList } from "../list.js";
import { listen } from "../live.js";
import { backControl, badge, debounce, emptyState, panes, redraw, showError } from "../parts.js";
import { buildPath, go } from "../router.js";
import { drawTaint } from "../flow/labels.js";
import { drawSession, revealCall } from "../flow/timeline.js";

/** @typedef {import("../flow/labels.js").SessionInList} SessionInList */
/** @typedef {import("../router.js").Place} Place */

const PAGE_SIZE = 50;
/** Beyond this many calls, a session is only read again when it is opened. */
const LIVE_CALLS = 1000;

/** @param {SessionInList} session */
function drawRow(session) {
  const caller = session.caller === null ? "" : JSON.stringify(session.caller);
  return h(
    "div",
    {},
    h("span", { class: "flow-taint" }, drawTaint(session.is_tainted)),
    h("span", { class: "grow mono", title: session.session_id }, session.session_id),
    session.was_asked && badge("asked", "wait", "A person was asked about its newest call"),
    h("span", { class: "wide muted mono flow-caller", title: caller }, caller),
    h("span", { class: "wide muted mono flow-tool", title: "The newest call" }, session.last_tool),
    h("span", { class: "muted number", title: formatExactTime(session.last_at) }, formatTime(session.last_at)),
  );
}

class FlowView {
  /**
   * @param {HTMLElement} root
   * @param {Place} place
   */
  constructor(root, place) {
    /** @type {string | null} */
    this.cursor = null;
    this.isLoading = false;
    /** @type {string | null} */
    this.shown = null;
    this.callCount = 0;
    this.chosen = h("div", { class: "flow-detail" });
    this.note = h("div", { class: "list-note" });
    /** @type {VirtualList<SessionInList>} */
    this.list = new VirtualList({
      label: "Sessions",
      rowHeight: 28,
      phoneRowHeight: 40,
      draw: drawRow,
      getKey: (session) => session.session_id,
      getVersion: (session) => `${session.last_at} ${session.is_tainted} ${session.was_asked}`,
      onOpen: (session) => go(buildPath("flow", session.session_id)),
      onEnd: () => void this.load(),
    });
    const find = h("input", { type: "search", placeholder: "Open a session by its id", "aria-label": "Open a session by its id" });
    find.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && find.value.trim() !== "") go(buildPath("flow", find.value.trim()));
    });
    this.policy = h("span", { class: "right" });
    const toolbar = h("div", { class: "toolbar" }, find, this.policy);
    this.panes = panes(h("section", { "aria-label": "Sessions" }, toolbar, this.note, this.list.element), h("section", { "aria-label": "The chosen session" }, this.chosen));
    this.panes.element.classList.add("wide-list");
    root.append(this.panes.element);
    const refresh = debounce(() => void this.load({ isFresh: true }), 500);
    const follow = debounce((/** @type {string} */ id) => void this.showSession(id, null), 1000);
    this.stop = listen("sessions", (/** @type {{session_id: string}} */ value) => {
      refresh();
      if (value.session_id === this.shown && this.callCount < LIVE_CALLS) follow(value.session_id);
    });
    this.open(place);
    void this.load({ isFresh: true });
  }

  /** @param {{isFresh?: boolean}} [options] */
  async load({ isFresh = false } = {}) {
    if (this.isLoading || (!isFresh && this.cursor === null)) return;
    this.isLoading = true;
    const isFirst = this.list.items.length === 0;
    if (isFirst) this.list.element.setAttribute("aria-busy", "true");
    try {
      const answer = await get("/flow/sessions", { cursor: isFresh ? null : this.cursor, limit: PAGE_SIZE });
      const known = new Set(answer.sessions.map((/** @type {SessionInList} */ each) => each.session_id));
      const others = this.list.items.filter((each) => !known.has(each.session_id));
      if (isFirst || !isFresh) this.cursor = answer.next_cursor;
      this.list.setItems(isFresh ? [...answer.sessions, ...others] : [...others, ...answer.sessions]);
      this.list.select(this.shown);
      this.showNote(answer.has_policy);
    } catch (error) {
      if (!isAborted(error)) replace(this.note, showError(error));
      this.cursor = null;
    } finally {
      this.isLoading = false;
      this.list.element.removeAttribute("aria-busy");
    }
  }

  /** @param {boolean} hasPolicy */
  showNote(hasPolicy) {
    const isEmpty = this.list.items.length === 0;
    this.list.element.hidden = isEmpty;
    replace(this.policy, hasPolicy ? badge("flow policy on", "ok", "Calls are judged by their values") : badge("no flow policy", "quiet", "The configuration has no [flow]: calls are not judged by their values"));
    replace(
      this.note,
      isEmpty ? emptyState("No sessions yet", h("p", {}, "A session appears with its first recorded call, of an MCP client or of a program with the journal of this server.")) : null,
    );
  }

  /** @param {Place} place */
  open(place) {
    this.shown = place.id;
    this.panes.choose(place.id !== null);
    this.list.select(place.id);
    this.list.redraw();
    replace(this.chosen);
    if (place.id !== null) void this.showSession(place.id, place.query.get("call"));
  }

  /**
   * @param {string} id
   * @param {string | null} call
   */
  async showSession(id, call) {
    if (this.chosen.childElementCount === 0) this.chosen.setAttribute("aria-busy", "true");
    const back = backControl("/page/flow");
    try {
      const session = await get("/flow/session", { id });
      if (this.shown !== id) return;
      this.callCount = session.call_count;
      redraw(this.chosen, drawSession(session, back));
      if (call !== null) revealCall(this.chosen, call);
    } catch (error) {
      if (this.shown === id) replace(this.chosen, h("div", { class: "detail" }, back, showError(error)));
    } finally {
      this.chosen.removeAttribute("aria-busy");
    }
  }

  close() {
    this.stop();
    this.list.close();
  }
}

/** @type {import("../main.js").View} */
export default {
  mount(root, place) {
    const view = new FlowView(root, place);
    return {
      unmount: () => view.close(),
      update(next) {
        view.open(next);
        return true;
      },
    };
  },
};
