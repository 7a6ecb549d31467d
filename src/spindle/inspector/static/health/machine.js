// @ts-check
// The machine: version, stores and their limits, and how commands of tools are confined.

import { h, replace } from "../dom.js";
import { formatBytes, formatCount, formatDuration, formatExactTime, plural } from "../format.js";
import { badge, facts, section } from "../parts.js";

/** @typedef {import("./types.js").HealthReport} HealthReport */
/** @typedef {import("../dom.js").Children} Children */

export class MachinePanel {
  constructor() {
    this.server = h("div", {});
    this.stores = h("div", {});
    this.sandbox = h("div", {});
    this.storesSection = section("Stores", this.stores);
    this.element = h("div", { class: "machine" }, this.storesSection, section("Commands of tools", this.sandbox), section("Server", this.server));
    /** @type {Map<HTMLElement, string>} */
    this.shown = new Map();
  }

  /** @param {HealthReport} report */
  show(report) {
    const { stores, sessions, abandoned_threads: abandoned } = report;
    this.storesSection.hidden = stores === null;
    this.draw(this.stores, stores, () => stores !== null && drawStores(stores));
    this.draw(this.sandbox, report.sandbox, () => drawSandbox(report));
    const { uptime_seconds, ...rest } = report;
    this.draw(this.server, [rest.version, rest.started_at, rest.tools, rest.sessions, rest.replicas, rest.abandoned_threads, Math.floor(uptime_seconds / 10)], () =>
      facts([
        ["Version", report.version],
        ["Started", h("span", { title: formatExactTime(report.started_at) }, `${formatDuration(uptime_seconds * 1000)} ago`)],
        ["Tools", formatCount(report.tools)],
        ["Sessions", sessions !== null && formatCount(sessions)],
        ["Replicas", stores !== null && (report.replicas === null ? "the journal is not shared" : formatCount(report.replicas))],
        ["Abandoned threads", abandoned !== null && (abandoned === 0 ? "none" : badge(formatCount(abandoned), "warn"))],
      ]),
    );
  }

  /**
   * Draw a part again only if it has changed.
   * @param {HTMLElement} target
   * @param {unknown} value
   * @param {() => Children} draw
   */
  draw(target, value, draw) {
    const text = JSON.stringify(value) ?? "";
    if (this.shown.get(target) === text) return;
    this.shown.set(target, text);
    replace(target, draw());
  }
}

/** @param {import("./types.js").Stores} stores */
function drawStores(stores) {
  const most = stores.spool_max_bytes;
  const used = stores.spool_bytes;
  const meter = most !== null && used !== null ? h("meter", { min: 0, max: most, value: Math.min(used, most), high: most * 0.9, "aria-label": "Used part of the spool" }) : null;
  const size = used === null ? "being measured…" : `${formatBytes(used)}${stores.spool_artifacts === null ? "" : `, ${plural(stores.spool_artifacts, "artifact")}`}`;
  return [
    stores.spool_problem !== null && h("div", { class: "problem" }, stores.spool_problem),
    facts([
      ["Spool", [size, meter]],
      ["Kept", `${most === null ? "without a limit" : `up to ${formatBytes(most)}`}${stores.spool_max_age_days === null ? "" : `, ${plural(stores.spool_max_age_days, "day")}`}`],
      ["Journal", stores.journal_bytes === null ? (stores.journal_file === null ? "not a file here" : "being measured…") : formatBytes(stores.journal_bytes)],
      ["Journal file", stores.journal_file === null ? null : h("code", {}, stores.journal_file)],
    ]),
  ];
}

/** @param {HealthReport} report */
function drawSandbox({ sandbox }) {
  if (sandbox === null) return h("p", { class: "hint" }, "Being looked up…");
  const isConfined = sandbox.enforced.includes("files");
  const kind = sandbox.kind === "none" || sandbox.kind === "off" ? "not confined" : sandbox.kind;
  return facts([
    ["Sandbox", [badge(kind, isConfined ? "ok" : "warn"), sandbox.mode === null ? null : ` mode ${sandbox.mode}`]],
    ["Granted", sandbox.commands === null ? null : sandbox.commands === 0 ? "no command: tools start no programs" : plural(sandbox.commands, "command")],
    ["Enforced", sandbox.enforced.length > 0 ? sandbox.enforced.join(", ") : "nothing"],
    ["Missing", Object.keys(sandbox.missing).length > 0 ? h("ul", { class: "plain" }, Object.entries(sandbox.missing).map(([name, why]) => h("li", {}, h("strong", {}, name.replaceAll("_", " ")), `: ${why}`))) : null],
  ]);
}
