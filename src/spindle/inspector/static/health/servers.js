// @ts-check
// Upstream servers: their state, latency and tools; what each can reach, and a restart.

import { isOperator, get, post } from "../api.js";
import { h, replace } from "../dom.js";
import { formatBytes, formatCount, formatDuration, plural } from "../format.js";
import { ask, badge, facts, section, showError, toast } from "../parts.js";
import { buildPath } from "../router.js";
import { drawSparkline } from "../sparkline.js";

/** @typedef {import("./types.js").HealthReport} HealthReport */
/** @typedef {import("./types.js").UpstreamHealth} UpstreamHealth */
/** @typedef {import("./types.js").ServerReach} ServerReach */

/** @type {Record<string, import("../parts.js").Tone>} */
const TONES = { ready: "ok", starting: "warn", failed: "error", idle: "quiet", stopped: "quiet" };

export class ServersPanel {
  /** @param {(report: HealthReport) => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    /** @type {Map<string, {element: HTMLDetailsElement, text: string}>} */
    this.drawn = new Map();
    /** @type {Set<string>} */
    this.restarting = new Set();
    this.list = h("div", { class: "server-list" }, h("p", { class: "hint" }, "…"));
    this.summary = h("span", { class: "hint" });
    this.element = section("Upstream servers", this.list, { more: this.summary });
    this.isClosed = false;
  }

  close() {
    this.isClosed = true;
  }

  /** @param {HealthReport} report */
  show(report) {
    const ready = report.servers.filter((server) => server.state === "ready").length;
    this.summary.textContent = report.servers.length > 0 ? `${ready} of ${report.servers.length} ready` : "";
    if (report.servers.length === 0) {
      replace(this.list, h("p", { class: "hint" }, "None is configured: the tools are those of this server."));
      this.drawn.clear();
      return;
    }
    const wanted = new Set(report.servers.map((server) => server.name));
    if (this.drawn.size === 0) replace(this.list);
    for (const [name, known] of this.drawn) {
      if (!wanted.has(name)) {
        known.element.remove();
        this.drawn.delete(name);
      }
    }
    for (const server of report.servers) this.update(server);
  }

  /** @param {UpstreamHealth} server */
  update(server) {
    const text = JSON.stringify([server, this.restarting.has(server.name)]);
    const known = this.drawn.get(server.name);
    if (known?.text === text) return;
    const element = known?.element ?? h("details", { class: "server" });
    const focused = element.contains(document.activeElement) ? document.activeElement?.getAttribute("data-part") : null;
    replace(element, this.drawHead(server), this.drawBody(server));
    if (focused) /** @type {HTMLElement | null} */ (element.querySelector(`[data-part="${focused}"]`))?.focus({ preventScroll: true });
    if (known === undefined) this.list.appendChild(element);
    this.drawn.set(server.name, { element, text });
  }

  /** @param {UpstreamHealth} server */
  drawHead(server) {
    const isBusy = this.restarting.has(server.name);
    const state = isBusy ? "restarting" : server.is_enabled ? server.state : "disabled";
    return h(
      "summary",
      { dataset: { part: "head" } },
      badge(state, isBusy ? "warn" : (TONES[server.state] ?? "quiet")),
      h("span", { class: "server-name truncate", title: server.name }, server.name),
      server.quarantined > 0 && badge(`${server.quarantined} withheld`, "warn"),
      server.restarts > 0 && badge(plural(server.restarts, "restart"), "warn"),
      h("span", { class: "server-tools number" }, plural(server.tools, "tool")),
      h("span", { class: "server-latency number", title: "How long the last ping took" }, server.state !== "ready" ? "" : server.answers_pings ? formatDuration(server.latency_ms) : "no pings"),
    );
  }

  /** @param {UpstreamHealth} server */
  drawBody(server) {
    const isBusy = this.restarting.has(server.name);
    const label = server.transport === "stdio" ? "Program" : "Host";
    return h(
      "div",
      { class: "server-body" },
      server.error !== null && h("div", { class: "problem" }, server.error),
      facts([
        [label, server.place === null ? null : h("code", {}, server.place)],
        ["Protocol", server.protocol_version],
        ["Ping", server.latencies_ms.length > 1 ? h("span", { class: "ping" }, drawSparkline(server.latencies_ms), `${formatDuration(Math.min(...server.latencies_ms))} to ${formatDuration(Math.max(...server.latencies_ms))}`) : formatPing(server)],
        ["Required", server.is_required ? "yes: without it this server is not healthy" : null],
        ["Results", server.is_trusted ? "trusted by the configuration" : "untrusted"],
        ["Lock", server.is_locked === null ? null : server.is_locked ? "locked" : "not in the lock file"],
        ["Withheld", server.withheld.length > 0 ? h("ul", { class: "plain" }, server.withheld.map((each) => h("li", {}, `${each.kind} `, h("code", {}, each.name), `: ${each.reason}`))) : null],
        ["Secrets", server.secrets.length > 0 ? server.secrets.map((name) => h("code", { class: "chip" }, name)) : "none"],
        ...drawReach(server),
      ]),
      h(
        "div",
        { class: "buttons" },
        h("a", { class: "button", href: buildPath("tools", null, { q: `mcp__${server.name}__` }) }, "Its tools"),
        isOperator && server.is_enabled && h("button", { class: "danger", disabled: isBusy, dataset: { part: "restart" }, onclick: () => void this.restart(server) }, isBusy ? "Restarting…" : "Restart"),
      ),
    );
  }

  /** @param {UpstreamHealth} server */
  async restart(server) {
    const isSure = await ask({
      title: `Restart ${server.name}?`,
      content: h("p", {}, "It is stopped and started again. Its calls that run now fail, and its tools are missing until it is ready."),
      confirm: "Restart",
      tone: "danger",
    });
    if (!isSure || this.isClosed) return;
    this.restarting.add(server.name);
    this.update(server);
    try {
      this.update(await post("/health/servers/{name}/restart", { name: server.name }, {}));
      toast(`${server.name} was restarted`);
    } catch (error) {
      toast(showError(error).textContent ?? "Failed.", "error");
    }
    this.restarting.delete(server.name);
    if (!this.isClosed) await get("/health").then((report) => this.onChange(report), () => null);
  }
}

/** @param {UpstreamHealth} server */
function formatPing(server) {
  if (!server.answers_pings) return "it does not answer pings; it is not asked again until it is restarted";
  return server.latency_ms === null ? null : formatDuration(server.latency_ms);
}

/**
 * @param {UpstreamHealth} server
 * @returns {[label: string, value: import("../dom.js").Children][]}
 */
function drawReach({ reach, transport, state }) {
  if (transport === "http") return [["Runs", "elsewhere; what it can reach is not known here"]];
  if (reach === null) return [["Can reach", state === "idle" ? "not started yet" : null]];
  const limits = Object.entries(reach.limits).map(([name, value]) => `${name.replaceAll("_", " ")} ${name.includes("bytes") ? formatBytes(value) : formatCount(value)}`);
  return [
    ["Sandbox", [badge(reach.is_confined ? `confined by ${reach.sandbox}` : "not confined", reach.is_confined ? "ok" : "warn")]],
    ["Network", [badge(reach.network ? "reachable" : "none", reach.network ? "warn" : "ok")]],
    ["Reads", reach.is_confined ? drawPaths(reach.read, "the system and its own installation only") : "everything that this server can read"],
    ["Writes", reach.is_confined ? drawPaths(reach.write, "nothing") : "everything that this server can write"],
    ["Hidden", reach.hidden > 0 ? plural(reach.hidden, "file") : null],
    ["Limits", limits.join(", ")],
    ["Not enforced", reach.notes.length > 0 ? h("ul", { class: "plain" }, reach.notes.map((note) => h("li", {}, note))) : null],
  ];
}

/**
 * @param {string[]} paths
 * @param {string} none
 */
function drawPaths(paths, none) {
  return paths.length === 0 ? none : h("ul", { class: "plain" }, paths.map((path) => h("li", {}, h("code", {}, path))));
}
