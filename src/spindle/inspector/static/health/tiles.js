// @ts-check
// The most important numbers, in a row at the top.

import { session } from "../api.js";
import { append, h, replace } from "../dom.js";
import { formatCount, formatDuration, plural } from "../format.js";
import { WINDOWS } from "./activity.js";

/** @typedef {import("../dom.js").Children} Children */

/** Shows one number with a label; its place does not change with its value. */
class Tile {
  /**
   * @param {string} label
   * @param {string} [href]
   */
  constructor(label, href) {
    this.value = h("strong", { class: "tile-value" }, "–");
    this.note = h("span", { class: "tile-note" });
    this.element = h(href === undefined ? "div" : "a", { class: "tile", href }, h("span", { class: "tile-label" }, label), this.value, this.note);
  }

  /**
   * @param {string} value
   * @param {Children} [note]
   * @param {"" | "ok" | "error" | "warn" | "wait"} [tone]
   */
  set(value, note = "", tone = "") {
    if (this.value.textContent !== value) this.value.textContent = value;
    this.value.className = `tile-value ${tone}`;
    replace(this.note, note);
  }
}

export class Tiles {
  constructor() {
    this.status = new Tile("Server");
    this.running = new Tile("Running calls", "/page/calls?state=started");
    this.waiting = new Tile("Waiting approvals", "/page/approvals");
    this.calls = new Tile("Calls");
    this.errors = new Tile("Failed");
    this.duration = new Tile("95 % end within");
    this.element = h("div", { class: "tiles" });
    append(this.element, [this.status, this.running, this.waiting, this.calls, this.errors, this.duration].map((tile) => tile.element));
  }

  /** @param {import("./types.js").HealthReport} report */
  showReport(report) {
    const bad = report.servers.filter((server) => server.is_enabled && (server.state === "failed" || server.error !== null));
    const isOk = report.status === "ok" && bad.length === 0;
    const text = report.status !== "ok" ? report.status : bad.length > 0 ? `${plural(bad.length, "server")} down` : "ok";
    this.status.set(text, `up ${formatDuration(report.uptime_seconds * 1000)}`, isOk ? "ok" : "error");
    const stuck = report.abandoned_threads ?? 0;
    const running = report.running_calls;
    if (running !== null) this.running.set(formatCount(running), stuck > 0 ? `${plural(stuck, "thread")} abandoned` : plural(report.sessions ?? 0, "session"), stuck > 0 ? "warn" : "");
    const waiting = report.waiting_approvals;
    this.waiting.set(waiting === null ? "–" : formatCount(waiting), waiting === null ? "calls cannot wait here" : "", waiting ? "wait" : "");
  }

  /** @param {import("./types.js").Activity} activity */
  showActivity({ total, window, points, slot_seconds }) {
    if (session.profile !== null) this.running.set(formatCount(total.running), "of your tools");
    const minutes = (points.length * slot_seconds) / 60;
    const rate = total.calls / minutes;
    this.calls.set(formatCount(total.calls), `${rate >= 10 ? Math.round(rate) : rate.toFixed(1)} a minute, over ${WINDOWS.find(([name]) => name === window)?.[1] ?? window}`);
    const share = total.calls === 0 ? 0 : (100 * total.errors) / total.calls;
    const shown = `${share > 0 && share < 10 ? share.toFixed(1) : Math.round(share)} %`;
    this.errors.set(total.calls === 0 ? "–" : shown, `${formatCount(total.errors)} of ${formatCount(total.calls)}`, share >= 10 ? "error" : "");
    this.duration.set(formatDuration(total.p95_ms), total.p50_ms === null ? "no call has ended" : `half within ${formatDuration(total.p50_ms)}`);
  }
}
