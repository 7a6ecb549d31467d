// @ts-check
// The tab of tables: the first rows, and SQL.

import { get, isAborted } from "../api.js";
import { append, h, replace } from "../dom.js";
import { plural } from "../format.js";
import { showError } from "../parts.js";
import { setQuery } from "../router.js";

/** @typedef {import("./types.js").Reading} Reading */
/** @typedef {{columns: [name: string, type: string][], rows: unknown[][], is_cut: boolean}} Table */

const FIRST_ROWS = "SELECT * FROM artifact";

/**
 * Draw an artifact as a table.
 * @param {HTMLElement} panel
 * @param {Reading} reading
 * @param {string} sql     a query to begin with
 */
export function drawTable(panel, reading, sql) {
  let running = new AbortController();
  const input = h("textarea", { "aria-label": "SQL", spellcheck: "false", rows: 2, maxlength: 8000 });
  input.value = sql || FIRST_ROWS;
  const status = h("span", { class: "hint", role: "status" });
  const body = h("div", { class: "reader-body", role: "region", tabindex: 0, "aria-label": "Rows" });
  const stop = h("button", { type: "button", hidden: true, onclick: () => running.abort() }, "Stop");

  const run = async () => {
    running.abort();
    running = new AbortController();
    const { signal } = running;
    setQuery({ tab: "table", sql: input.value.trim() === FIRST_ROWS ? null : input.value });
    stop.hidden = false;
    status.textContent = "Running…";
    body.setAttribute("aria-busy", "true");
    try {
      /** @type {Table} */
      const table = await get("/artifacts/table", { id: reading.id, sql: input.value }, signal);
      status.textContent = `${plural(table.rows.length, "row")}${table.is_cut ? ", and more that are not shown" : ""}`;
      replace(body, drawRows(table));
      body.scrollTo(0, 0);
    } catch (error) {
      if (running.signal !== signal) return;
      status.textContent = isAborted(error) ? "Stopped" : "";
      if (!isAborted(error)) replace(body, showError(error));
    }
    stop.hidden = true;
    body.removeAttribute("aria-busy");
  };
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void run();
    }
  });
  const form = h(
    "form",
    {
      class: "toolbar sql",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        void run();
      },
    },
    input,
    h("button", { class: "primary", type: "submit", title: "Ctrl+Enter" }, "Run"),
    stop,
    status,
  );
  append(panel, [form, body]);
  reading.signal.addEventListener("abort", () => running.abort(), { once: true });
  void run();
  return () => running.abort();
}

/** @param {Table} table */
function drawRows(table) {
  if (table.columns.length === 0) return h("p", { class: "hint pad" }, "There are no rows.");
  const numeric = table.columns.map(([, type]) => /INT|DOUBLE|FLOAT|DECIMAL|NUMBER/i.test(type));
  return h(
    "table",
    { class: "data rows" },
    h("thead", {}, h("tr", {}, table.columns.map(([name, type], column) => h("th", { title: type, scope: "col", class: numeric[column] ? "number" : "" }, name, h("span", { class: "type" }, type.toLowerCase()))))),
    h(
      "tbody",
      {},
      table.rows.map((row) =>
        h("tr", {}, row.map((cell, column) => (cell === null ? h("td", { class: "null" }, "null") : h("td", { class: numeric[column] ? "number" : "", dir: "auto" }, String(cell))))),
      ),
    ),
  );
}
