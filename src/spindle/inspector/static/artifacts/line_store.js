// @ts-check
// The lines of an artifact as far as they were loaded: those in sight are asked for, old ones are forgotten.

import { get, isAborted } from "../api.js";

/** @typedef {import("./types.js").Line} Line */
/** @typedef {import("./types.js").LinePage} LinePage */

const PAGE = 200;
const LEAD = 40;
const MAX_KEPT = 20_000;
const RETRY_MS = 2_000;

export class LineStore {
  /**
   * @param {string} id
   * @param {AbortSignal} signal
   * @param {() => void} onChange     called when more lines are known
   */
  constructor(id, signal, onChange) {
    this.id = id;
    this.signal = signal;
    this.onChange = onChange;
    /** @type {Map<number, Line>} */
    this.lines = new Map();
    /** @type {unknown} */
    this.error = null;
    this.failedAt = 0;
    this.isLoading = false;
    /** @type {[number, number] | null} */
    this.wanted = null;
  }

  /** @param {number} number */
  find(number) {
    return this.lines.get(number);
  }

  /**
   * Load the lines of a range that are not known; only the last range that was asked for matters.
   * @param {number} first
   * @param {number} last
   */
  want(first, last) {
    this.wanted = [first, last];
    const hasFailed = this.error !== null && Date.now() - this.failedAt < RETRY_MS;
    if (!this.isLoading && !hasFailed && this.findMissing() !== null) void this.loadWanted();
  }

  async loadWanted() {
    this.isLoading = true;
    try {
      for (let missing = this.findMissing(); missing !== null; missing = this.findMissing()) {
        // The lines before are likely to be looked at next, too; where lines are long, a page has few of them.
        await this.load({ line: Math.max(0, missing - LEAD), count: PAGE });
        if (!this.lines.has(missing)) await this.load({ line: missing, count: PAGE });
        if (!this.lines.has(missing)) throw new Error("The artifact has changed; open it again.");
      }
    } catch (error) {
      if (isAborted(error)) return;
      this.error = error;
      this.failedAt = Date.now();
      this.onChange();
    } finally {
      this.isLoading = false;
    }
  }

  findMissing() {
    if (this.wanted === null) return null;
    const [first, last] = this.wanted;
    for (let line = first; line < last; line += 1) {
      if (!this.lines.has(line)) return line;
    }
    return null;
  }

  /**
   * @param {{line?: number, byte?: number, percent?: number, count: number}} place
   * @returns {Promise<LinePage>}
   */
  async load(place) {
    /** @type {LinePage} */
    const page = await get("/artifacts/lines", { id: this.id, ...place }, this.signal);
    this.error = null;
    for (const line of page.lines) {
      this.lines.delete(line.number);
      this.lines.set(line.number, line);
    }
    for (const number of this.lines.keys()) {
      if (this.lines.size <= MAX_KEPT) break;
      this.lines.delete(number);
    }
    this.onChange();
    return page;
  }
}
