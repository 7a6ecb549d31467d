// @ts-check
// The calls of the list: pages from the journal, new calls as they come, and changes of those that are shown.

import { get } from "../api.js";
import { compareCursors, hasFilters, toParams } from "./model.js";

/** @typedef {import("./model.js").CallRow} CallRow */
/** @typedef {CallRow & {version: number}} ListedCall */
/** @typedef {{number: number, calls: CallRow[], is_lost: boolean}} CallMessage */

const PAGE = 200;
const PULL_MS = 1000;
/** While the list is at its top, more rows than this are dropped at its end; they are read again when needed. */
const MAX_LIVE = 4000;
const KEPT_LIVE = 2000;
/** So many requests without a match are made before the user is asked to go on. */
const MAX_EMPTY = 10;

export class CallFeed {
  /**
   * @param {import("./model.js").Filters} filters
   * @param {{onItems: (items: ListedCall[]) => void, onNewer: (newer: ListedCall[]) => void, onChange: () => void, onError: (error: unknown) => void}} events
   */
  constructor(filters, events) {
    this.filters = filters;
    this.events = events;
    /** @type {ListedCall[]} */
    this.items = [];
    /** New calls that are not shown yet. @type {ListedCall[]} */
    this.waiting = [];
    /** @type {Map<string, ListedCall>} */
    this.byKey = new Map();
    /** @type {string | null} */
    this.cursor = null;
    this.isComplete = false;
    this.isLoading = false;
    /** How many calls were searched; unknown for the login of a profile. @type {number | null} */
    this.scanned = 0;
    this.emptyPages = 0;
    this.isPulling = false;
    /** The newest place that was read. @type {string} */
    this.newest = "c0";
    this.lastNumber = 0;
    this.abort = new AbortController();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  close() {
    this.abort.abort();
    clearTimeout(this.timer);
  }

  /** Read the newest calls. */
  async start() {
    this.isLoading = true;
    try {
      if (hasFilters(this.filters)) {
        const newest = await get("/calls", { limit: 1 }, this.abort.signal);
        this.newest = newest.calls[0]?.cursor ?? "c0";
      }
    } catch (error) {
      this.isLoading = false;
      this.events.onError(error);
      return;
    }
    this.isLoading = false;
    await this.loadMore();
  }

  /** Read older calls, unless there are none, or nothing was found for long. */
  async loadMore() {
    if (this.isLoading || this.isComplete || this.emptyPages >= MAX_EMPTY) return;
    this.isLoading = true;
    try {
      const page = /** @type {import("./model.js").CallPage} */ (await get("/calls", { ...toParams(this.filters), cursor: this.cursor, limit: PAGE }, this.abort.signal));
      this.cursor = page.next_cursor;
      this.isComplete = page.is_complete;
      this.scanned = page.scanned === null ? null : (this.scanned ?? 0) + page.scanned;
      this.emptyPages = page.calls.length > 0 ? 0 : this.emptyPages + 1;
      const older = page.calls.filter((call) => !this.byKey.has(call.key)).map((call) => this.add(call));
      this.items = [...this.items, ...older];
      this.isLoading = false;
      this.events.onItems(this.items);
      if (page.calls.length === 0 && !page.is_complete) await this.loadMore();
    } catch (error) {
      this.isLoading = false;
      this.events.onError(error);
    }
  }

  /** Search on after nothing was found for long. */
  searchOn() {
    this.emptyPages = 0;
    void this.loadMore();
  }

  get canSearchOn() {
    return !this.isComplete && this.emptyPages >= MAX_EMPTY;
  }

  /**
   * @param {CallRow} call
   * @returns {ListedCall}
   */
  add(call) {
    const listed = { ...call, version: 0 };
    this.byKey.set(call.key, listed);
    if (compareCursors(call.cursor, this.newest) > 0) this.newest = call.cursor;
    return listed;
  }

  /**
   * Take a message of the server.
   * @param {CallMessage} message
   */
  receive(message) {
    const isGap = message.is_lost || (this.lastNumber > 0 && message.number !== this.lastNumber + 1);
    this.lastNumber = message.number;
    /** @type {ListedCall[]} */
    const newer = [];
    let hasOthers = isGap;
    for (const call of message.calls) {
      const known = this.byKey.get(call.key);
      if (known !== undefined && known.cursor === call.cursor) {
        Object.assign(known, call);
        known.version += 1;
      } else if (hasFilters(this.filters) || compareCursors(call.cursor, this.newest) <= 0) {
        hasOthers = true;
      } else {
        if (known !== undefined) this.remove(known);
        newer.push(this.add(call));
      }
    }
    if (newer.length > 0) this.events.onNewer(sortNewest(newer));
    this.events.onChange();
    if (hasOthers) this.pullSoon();
  }

  /** @param {ListedCall} call */
  remove(call) {
    this.items = this.items.filter((each) => each !== call);
    this.waiting = this.waiting.filter((each) => each !== call);
    this.events.onItems(this.items);
  }

  pullSoon() {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      void this.pull();
    }, PULL_MS);
  }

  /** Read the calls that are newer than the newest one known: with filters, or after messages were lost. */
  async pull() {
    if (this.isPulling) return;
    this.isPulling = true;
    try {
      const page = /** @type {import("./model.js").CallPage} */ (await get("/calls", { ...toParams(this.filters), cursor: this.newest, order: "oldest_first", limit: PAGE }, this.abort.signal));
      if (page.next_cursor !== null && compareCursors(page.next_cursor, this.newest) > 0) this.newest = page.next_cursor;
      const newer = page.calls.filter((call) => !this.byKey.has(call.key)).map((call) => this.add(call));
      if (newer.length > 0) this.events.onNewer(sortNewest(newer));
      if (!page.is_complete) this.pullSoon();
    } catch (error) {
      this.events.onError(error);
    } finally {
      this.isPulling = false;
    }
  }

  /**
   * Show calls above the others; the list stays short while only the newest ones are looked at.
   * @param {ListedCall[]} newer
   * @returns {boolean} whether calls at the end were dropped
   */
  prepend(newer) {
    this.items = [...newer, ...this.items];
    if (this.items.length <= MAX_LIVE) return false;
    for (const dropped of this.items.slice(KEPT_LIVE)) this.byKey.delete(dropped.key);
    this.items = this.items.slice(0, KEPT_LIVE);
    this.cursor = this.items.at(-1)?.cursor ?? null;
    this.isComplete = false;
    return true;
  }
}

/** @param {ListedCall[]} calls */
function sortNewest(calls) {
  return calls.sort((one, two) => compareCursors(two.cursor, one.cursor));
}
