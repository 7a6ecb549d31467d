// @ts-check
// Artifacts: what was spooled, newest first, and a reader for any of them.

import { get, isAborted } from "../api.js";
import { openReader } from "../artifacts/reader.js";
import { h, replace } from "../dom.js";
import { formatBytes, formatCount, formatExactTime, formatTime, plural } from "../format.js";
import { VirtualList } from "../list.js";
import { debounce, emptyState, panes, showError } from "../parts.js";
import { buildPath, go } from "../router.js";

/** @typedef {import("../artifacts/types.js").Entry} Entry */
/** @typedef {import("../router.js").Place} Place */

/** @type {import("../main.js").View} */
export default {
  mount(root, place) {
    const view = new ArtifactsView(root);
    view.show(place);
    return {
      unmount: () => view.close(),
      update: (next) => {
        view.show(next);
        return true;
      },
    };
  },
};

class ArtifactsView {
  /** @param {HTMLElement} root */
  constructor(root) {
    /** @type {Entry[]} */
    this.entries = [];
    /** @type {string | null} */
    this.cursor = null;
    this.isLoading = false;
    this.request = new AbortController();
    /** @type {string | null} */
    this.shown = null;
    this.closeReader = () => {};
    this.search = h("input", { type: "search", placeholder: "Filter by id or turn", "aria-label": "Filter artifacts", oninput: debounce(() => this.reload()) });
    this.status = h("span", { class: "right", role: "status" });
    this.problem = h("div", {});
    /** @type {VirtualList<Entry>} */
    this.list = new VirtualList({
      label: "Artifacts",
      rowHeight: 44,
      getKey: (entry) => entry.id,
      draw: drawEntry,
      onOpen: (entry) => go(buildPath("artifacts", entry.id)),
      onEnd: () => void this.loadMore(),
    });
    this.detail = h("div", {});
    const refresh = h("button", { onclick: () => this.reload(), title: "Read the list again" }, "Refresh");
    const first = h("div", {}, h("div", { class: "toolbar" }, this.search, refresh, this.status), this.problem, this.list.element);
    this.panes = panes(first, this.detail);
    root.append(this.panes.element);
    this.reload();
  }

  close() {
    this.request.abort();
    this.closeReader();
    this.list.close();
  }

  /** @param {Place} place */
  show(place) {
    const { id } = place;
    this.panes.choose(id !== null);
    this.list.select(id);
    if (id === this.shown && id !== null) return;
    this.shown = id;
    this.closeReader();
    this.closeReader = () => {};
    if (id === null) {
      replace(this.detail, emptyState("Choose an artifact", "Read it by lines, search it, browse its JSON, or query it as a table. Any size opens at once."));
    } else {
      replace(this.detail);
      this.closeReader = openReader(this.detail, { ...place, id });
    }
  }

  reload() {
    this.request.abort();
    this.request = new AbortController();
    this.entries = [];
    this.cursor = "";
    this.isLoading = false;
    void this.loadMore();
  }

  async loadMore() {
    if (this.isLoading || this.cursor === null) return;
    this.isLoading = true;
    const { signal } = this.request;
    const text = this.search.value;
    try {
      /** @type {{artifacts: Entry[], next_cursor: string | null, count: number | null}} */
      const page = await get("/artifacts", { text, cursor: this.cursor, limit: 100 }, signal);
      replace(this.problem);
      this.entries = [...this.entries, ...page.artifacts];
      this.cursor = page.next_cursor;
      this.list.empty.textContent = text === "" ? "No artifacts yet. A result that is too large for a model is kept here in full." : "No artifact matches.";
      this.status.textContent = describeCount(this.entries.length, page, text !== "");
      this.list.setItems(this.entries);
      this.list.select(this.shown);
    } catch (error) {
      if (isAborted(error)) return;
      this.cursor = null;
      replace(this.problem, showError(error));
    }
    this.isLoading = false;
    if (this.entries.length === 0) void this.loadMore(); // none of the first page may be seen
  }
}

/**
 * @param {number} shown
 * @param {{next_cursor: string | null, count: number | null}} page
 * @param {boolean} hasFilter
 */
function describeCount(shown, { next_cursor, count }, hasFilter) {
  const found = `${formatCount(shown)}${next_cursor === null ? "" : "+"}`;
  if (count === null) return found;
  return hasFilter ? `${found} of ${formatCount(count)}` : plural(count, "artifact");
}

/** @param {Entry} entry */
function drawEntry(entry) {
  const at = entry.id.lastIndexOf("/");
  return h(
    "div",
    { class: "artifact-row", title: entry.id },
    h("span", { class: "grow" }, h("span", { class: "mono name" }, entry.id.slice(at + 1) || entry.id), h("span", { class: "mono folder" }, at > 0 ? entry.id.slice(0, at) : "")),
    h("span", { class: "facts-column" }, h("span", {}, formatBytes(entry.byte_length)), h("span", { class: "muted", title: formatExactTime(entry.created_at) }, formatTime(entry.created_at))),
  );
}
