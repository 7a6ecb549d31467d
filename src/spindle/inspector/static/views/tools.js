// @ts-check
// Tools: the list, one tool, and a form to try it.

import { get, isAborted } from "../api.js";
import { h, replace } from "../dom.js";
import { listen } from "../live.js";
import { backControl, badge, emptyState, facts, panes, showError, toast } from "../parts.js";
import { buildPath } from "../router.js";
import { drawDetail } from "../tools/detail.js";
import { ToolList, isWithheld } from "../tools/list.js";
import { clip } from "../tools/schema.js";

/** @typedef {import("../router.js").Place} Place */

const STARTERS = ["read_file", "search_files", "calculate"];

class ToolsView {
  /**
   * @param {HTMLElement} root
   * @param {Place} place
   */
  constructor(root, place) {
    this.list = new ToolList(() => this.onLoaded());
    this.second = h("div", {});
    this.panes = panes(this.list.element, this.second);
    this.tab = "try";
    this.shown = "";
    this.place = place;
    /** @type {import("../tools/trial.js").TrialPanel | null} */
    this.trial = null;
    this.request = new AbortController();
    root.append(this.panes.element);
    let isFirst = true;
    this.stop = listen("tools", () => {
      if (!isFirst) void this.list.load();
      isFirst = false;
    });
    void this.list.load();
    this.update(place);
  }

  unmount() {
    this.stop();
    this.list.close();
    this.trial?.close();
    this.request.abort();
  }

  onLoaded() {
    if (this.place.id === null && this.shown === "") this.drawWelcome();
    const withheld = this.list.tools.find((tool) => tool.name === this.place.id && isWithheld(tool));
    if (withheld !== undefined) this.drawWithheld(withheld);
  }

  /** @param {Place} place */
  update(place) {
    this.place = place;
    this.panes.choose(place.id !== null);
    this.list.list.select(place.id);
    const from = place.query.get("from");
    const wanted = place.id === null ? "" : `${place.id} ${from ?? ""}`;
    if (wanted === this.shown && wanted !== "") return true;
    this.shown = wanted;
    this.trial?.close();
    this.trial = null;
    this.request.abort();
    this.request = new AbortController();
    if (place.id === null) this.drawWelcome();
    else void this.show(place.id, from);
    return true;
  }

  drawWelcome() {
    const known = STARTERS.filter((name) => this.list.tools.some((tool) => tool.name === name));
    const links = known.map((name) => h("a", { class: "button", href: buildPath("tools", name) }, `Try ${name}`));
    replace(this.second, emptyState("Choose a tool to see it and to try it.", links.length > 0 && h("div", { class: "buttons" }, links)));
  }

  /** @param {import("../tools/list.js").ToolRow} tool */
  drawWithheld(tool) {
    replace(
      this.second,
      h(
        "div",
        { class: "detail" },
        h("header", {}, backControl("/page/tools"), h("h1", { class: "mono" }, tool.name), badge("in quarantine", "error")),
        h("div", { class: "problem" }, `It is neither shown to clients nor callable: ${tool.lock.reason ?? ""}.`),
        facts([
          ["Server", tool.source],
          ["What to do", ["Look at the change with ", h("code", {}, "spindle diff"), ", and accept it with ", h("code", {}, "spindle lock"), "."]],
        ]),
      ),
    );
  }

  /**
   * @param {string} name
   * @param {string | null} from   the key of a recorded call whose arguments are put into the form
   */
  async show(name, from) {
    const { signal } = this.request;
    this.second.setAttribute("aria-busy", "true");
    try {
      const detail = await get("/tools/detail", { name }, signal);
      const dialects = Object.keys(detail.tool.prices ?? {}).length > 0 ? Object.keys(detail.tool.prices) : this.list.dialects;
      const all = dialects.length > 0 ? dialects : (await get("/tools", { limit: 1 }, signal)).dialects;
      const { element, trial } = drawDetail(detail, all, this.tab, (tab) => {
        this.tab = tab;
      });
      this.trial = trial;
      replace(this.second, element);
      this.second.scrollTop = 0;
      await (from === null ? trial.restore() : this.prefill(name, from, signal));
    } catch (error) {
      const isHeld = this.list.tools.some((tool) => tool.name === name && isWithheld(tool));
      if (!isAborted(error) && !isHeld) replace(this.second, h("div", { class: "detail" }, h("header", {}, backControl("/page/tools")), showError(error)));
    } finally {
      if (!signal.aborted) this.second.removeAttribute("aria-busy");
    }
  }

  /**
   * @param {string} name
   * @param {string} key
   * @param {AbortSignal} signal
   */
  async prefill(name, key, signal) {
    try {
      const recorded = await get("/tools/recorded", { key }, signal);
      if (recorded.tool === name) this.trial?.fillText(recorded.args_text);
      if (recorded.tool === name && recorded.left_out.length > 0) toast(`Secrets are not recorded; enter again: ${clip(recorded.left_out.join(", "), 200)}`);
      if (recorded.tool !== name) toast("That call was made with another tool", "error");
    } catch (error) {
      if (!isAborted(error)) toast(error instanceof Error ? error.message : "The call cannot be read", "error");
    }
  }
}

/** @type {import("../main.js").View} */
export default {
  mount(root, place) {
    const view = new ToolsView(root, place);
    return { unmount: () => view.unmount(), update: (next) => view.update(next) };
  },
};
