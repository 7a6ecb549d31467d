// @ts-check
// Turns: a live list, and the chosen turn as a story.

import { ApiError, get, isAborted } from "../api.js";
import { h, replace } from "../dom.js";
import { drawTaint } from "../flow/labels.js";
import { formatCount, formatDuration, formatExactTime, formatTime, plural } from "../format.js";
import { VirtualList } from "../list.js";
import { listen } from "../live.js";
import { backControl, badge, debounce, emptyState, load, panes, redraw, showError } from "../parts.js";
import { buildPath, go, setQuery } from "../router.js";
import { drawStory } from "../turns/story.js";
import { formatCost, getDuration, toneOfStatus } from "../turns/words.js";

/** @typedef {import("../turns/words.js").TurnSummary} TurnSummary */
/** @typedef {import("../turns/words.js").TurnDetail} TurnDetail */
/** @typedef {import("../router.js").Place} Place */

const STATUSES = ["running", "suspended", "ok", "error", "limit", "nack", "aborted"];
const PAGE_SIZE = 100;

/** @param {TurnSummary} turn */
function drawRow(turn) {
  const tokens = turn.input_tokens === null && turn.output_tokens === null
    ? ""
    : `${formatCount(turn.input_tokens ?? 0)} → ${formatCount(turn.output_tokens ?? 0)}`;
  return h(
    "div",
    {},
    h("span", { class: "turn-status" }, badge(turn.status, toneOfStatus(turn.status))),
    h("span", { class: "grow", title: turn.request }, turn.request || h("span", { class: "muted" }, "no message of a user")),
    turn.waiting_count > 0 && badge(`waits ${turn.waiting_count}`, "wait", "Gates and approvals that are open"),
    turn.error_count > 0 && badge(plural(turn.error_count, "error"), "error", "Calls that failed"),
    h("span", { class: "wide muted mono turn-session", title: "Session" }, turn.session_id),
    h("span", { class: "wide muted number turn-counts" }, `${plural(turn.iteration_count, "step")}, ${plural(turn.call_count, "call")}`),
    h("span", { class: "wide muted number turn-tokens", title: tokens === "" ? null : "Tokens in → out" }, tokens),
    h("span", { class: "wide muted number turn-cost" }, formatCost(turn.cost_usd)),
    h("span", { class: "wide muted number turn-duration" }, formatDuration(getDuration(turn))),
    h("span", { class: "muted number turn-time", title: formatExactTime(turn.started_at) }, formatTime(turn.started_at)),
  );
}

/** What a newcomer reads when no program has left a turn here: how one gets here, and the sessions of MCP clients. */
function drawEmpty() {
  const sessions = h("div", { class: "turn-sessions" });
  void load(sessions, get("/flow/sessions", { limit: 20 }), drawSessions);
  return emptyState(
    "No turns yet",
    h("p", {}, "A turn appears when a program runs ", h("code", {}, "TurnRunner(journal=…)"), " with the journal of this server."),
    sessions,
  );
}

/** @param {{sessions: import("../flow/labels.js").SessionInList[]}} answer */
function drawSessions(answer) {
  if (answer.sessions.length === 0) return null;
  const rows = answer.sessions.map((session) =>
    h(
      "li",
      {},
      drawTaint(session.is_tainted),
      h("a", { class: "mono truncate", href: buildPath("flow", session.session_id) }, session.session_id),
      h("span", { class: "muted mono truncate" }, session.last_tool),
      h("span", { class: "muted number" }, formatTime(session.last_at)),
    ),
  );
  return [h("h2", {}, "Sessions of clients"), h("ul", {}, rows)];
}

/**
 * What is shown of a turn without a story: calls of clients and of this page have a turn too.
 * @param {string} id
 */
function drawUnknown(id) {
  return emptyState(
    "This turn has no story",
    h("p", {}, "Only a program that runs ", h("code", {}, "TurnRunner(journal=…)"), " writes one, not an MCP client, and not this page."),
    h("p", {}, h("a", { href: buildPath("calls", null, { turn: id }) }, "Calls of turn ", h("code", {}, id))),
  );
}

class TurnsView {
  /**
   * @param {HTMLElement} root
   * @param {Place} place
   */
  constructor(root, place) {
    this.filters = { status: place.query.get("status") ?? "", session: place.query.get("session") ?? "" };
    /** @type {string | null} */
    this.cursor = null;
    this.isLoading = false;
    this.reading = new AbortController();
    /** @type {string | null} */
    this.shown = null;
    this.chosen = h("div", { class: "turn-detail" });
    this.note = h("div", { class: "list-note" });
    /** @type {VirtualList<TurnSummary>} */
    this.list = new VirtualList({
      label: "Turns",
      rowHeight: 28,
      phoneRowHeight: 40,
      draw: drawRow,
      getKey: (turn) => turn.turn_id,
      getVersion: (turn) => turn.updated_at,
      onOpen: (turn) => go(this.buildPath(turn.turn_id)),
      onEnd: () => void this.loadMore(),
      empty: "No turn matches.",
    });
    const first = h("section", { "aria-label": "Turns" }, this.drawToolbar(), this.note, this.list.element);
    const second = h("section", { "aria-label": "The chosen turn" }, this.chosen);
    this.panes = panes(first, second);
    this.panes.element.classList.add("wide-list");
    root.append(this.panes.element);
    this.stop = listen("turns", (turn) => this.onChange(turn));
    this.open(place);
    void this.reload();
  }

  /**
   * Return whether a place has the filters of this view.
   * @param {Place} place
   */
  hasFilters(place) {
    return (place.query.get("status") ?? "") === this.filters.status && (place.query.get("session") ?? "") === this.filters.session;
  }

  /** @param {string | null} id */
  buildPath(id) {
    return buildPath("turns", id, this.filters);
  }

  drawToolbar() {
    const status = h(
      "select",
      { "aria-label": "Status" },
      h("option", { value: "" }, "Any status"),
      STATUSES.map((name) => h("option", { value: name, selected: name === this.filters.status }, name)),
    );
    const session = h("input", { type: "search", placeholder: "Session", "aria-label": "Session", value: this.filters.session });
    const apply = () => {
      this.filters = { status: status.value, session: session.value.trim() };
      setQuery(this.filters);
      void this.reload();
    };
    status.addEventListener("change", apply);
    session.addEventListener("input", debounce(apply, 250));
    this.count = h("span", { class: "right" });
    return h("div", { class: "toolbar" }, status, session, this.count);
  }

  /** @param {string | null} cursor */
  read(cursor) {
    const { status, session } = this.filters;
    return get("/turns", { status, session_id: session, cursor, limit: PAGE_SIZE }, this.reading.signal);
  }

  async reload() {
    this.reading.abort();
    this.reading = new AbortController();
    this.isLoading = true;
    this.list.element.setAttribute("aria-busy", "true");
    try {
      const answer = await this.read(null);
      this.cursor = answer.next_cursor;
      this.list.setItems(answer.turns);
      this.list.select(this.shown);
      this.showCount();
    } catch (error) {
      if (!isAborted(error)) replace(this.note, showError(error));
    } finally {
      this.isLoading = false;
      this.list.element.removeAttribute("aria-busy");
    }
  }

  async loadMore() {
    if (this.isLoading || this.cursor === null) return;
    this.isLoading = true;
    try {
      const answer = await this.read(this.cursor);
      this.cursor = answer.next_cursor;
      this.list.setItems([...this.list.items, ...answer.turns]);
      this.showCount();
    } catch (error) {
      if (!isAborted(error)) replace(this.note, showError(error));
      this.cursor = null;
    } finally {
      this.isLoading = false;
    }
  }

  showCount() {
    const count = this.list.items.length;
    const isFiltered = this.filters.status !== "" || this.filters.session !== "";
    if (this.count) this.count.textContent = count === 0 ? "" : this.cursor === null ? plural(count, "turn") : `${formatCount(count)}+ turns`;
    const isEmpty = count === 0 && !isFiltered;
    replace(this.note, isEmpty ? drawEmpty() : null);
    this.list.element.hidden = isEmpty;
  }

  /** @param {TurnSummary} turn */
  onChange(turn) {
    const { status, session } = this.filters;
    const at = this.list.items.findIndex((known) => known.turn_id === turn.turn_id);
    if (at >= 0) {
      this.list.items[at] = turn;
      this.list.schedule();
    } else if ((status === "" || status === turn.status) && (session === "" || session === turn.session_id)) {
      this.list.prepend([turn]);
      this.showCount();
    }
    if (turn.turn_id === this.shown) void this.showTurn(turn.turn_id);
  }

  /** @param {Place} place */
  open(place) {
    this.shown = place.id;
    this.panes.choose(place.id !== null);
    this.list.select(place.id);
    this.list.redraw();
    replace(this.chosen);
    if (place.id !== null) void this.showTurn(place.id);
  }

  /** @param {string} id */
  async showTurn(id) {
    const isFirst = this.chosen.childElementCount === 0;
    if (isFirst) this.chosen.setAttribute("aria-busy", "true");
    try {
      const turn = /** @type {TurnDetail} */ (await get("/turn", { id }));
      if (this.shown !== id) return;
      redraw(this.chosen, drawStory(turn, backControl(this.buildPath(null))));
    } catch (error) {
      const isUnknown = error instanceof ApiError && error.status === 404;
      if (this.shown === id) replace(this.chosen, h("div", { class: "detail" }, h("header", {}, backControl(this.buildPath(null))), isUnknown ? drawUnknown(id) : showError(error)));
    } finally {
      this.chosen.removeAttribute("aria-busy");
    }
  }

  close() {
    this.stop();
    this.reading.abort();
    this.list.close();
  }
}

/** @type {import("../main.js").View} */
export default {
  mount(root, place) {
    const view = new TurnsView(root, place);
    return {
      unmount: () => view.close(),
      update(next) {
        if (!view.hasFilters(next)) return false;
        view.open(next);
        return true;
      },
    };
  },
};
