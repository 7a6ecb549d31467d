// @ts-check
// What the API tells about calls, and the filters of their list.

import { formatCode } from "../format.js";

/**
 * @typedef {object} CallRow
 * @property {string} key
 * @property {string} cursor
 * @property {string} tool_call_id
 * @property {string} tool
 * @property {"started" | "finished" | "interrupted"} state
 * @property {string | null} code
 * @property {string} started_at
 * @property {string | null} ended_at
 * @property {number | null} duration_ms
 * @property {number} attempts
 * @property {string | null} session_id
 * @property {string | null} turn_id
 * @property {string | null} artifact_id
 * @property {number | null} result_chars
 * @property {number | null} cost_usd
 * @property {boolean} trusted
 * @property {string} args
 * @property {string | null} error
 */
/** @typedef {{calls: CallRow[], next_cursor: string | null, scanned: number | null, is_complete: boolean}} CallPage */
/** @typedef {{text: string, chars: number, is_cut: boolean}} ShownText */
/**
 * @typedef {object} CallDetail
 * @property {CallRow} call
 * @property {string} checksum
 * @property {string | null} fingerprint
 * @property {ShownText} args_text
 * @property {ShownText | null} caller
 * @property {ShownText | null} error
 * @property {string | null} error_by
 * @property {string | null} error_field
 * @property {boolean} is_retryable
 * @property {ShownText | null} result
 * @property {boolean} is_partial
 * @property {ShownText | null} structured
 * @property {string[]} media
 * @property {string | null} label
 * @property {{asked: boolean, reasons: string[]} | null} flow
 * @property {unknown} timing
 * @property {unknown} events
 * @property {{id: string, status: string, created_at: string, answered_at: string | null, answered_by: string | null, reasons: string[]}[]} approvals
 * @property {CallRow | null} previous
 * @property {boolean} is_tool_known
 * @property {string | null} replay_problem
 */
/** @typedef {{key: string, tool_call_id: string, is_finished: boolean, code: string | null, error: string | null, approval_id: string | null}} RepeatedCall */
/** @typedef {{kind: "same" | "removed" | "added" | "folded", text: string, left: number | null, right: number | null, count: number}} DiffRow */
/** @typedef {{name: "arguments" | "result", lines: DiffRow[], is_same: boolean, is_cut: boolean, is_aligned: boolean}} DiffPart */
/** @typedef {{left: CallRow, right: CallRow, parts: DiffPart[]}} CallComparison */

/** The filters, as they are in the address of the page; each is the name of a parameter of the API, or its value here. */
export const FILTERS = /** @type {const} */ (["text", "tool", "state", "outcome", "code", "session", "turn", "artifact", "id", "from", "to"]);

/** @typedef {typeof FILTERS[number]} FilterName */
/** @typedef {Partial<Record<FilterName, string>>} Filters */

/**
 * Read the filters of an address.
 * @param {URLSearchParams} query
 * @returns {Filters}
 */
export function readFilters(query) {
  /** @type {Filters} */
  const filters = {};
  for (const name of FILTERS) {
    const value = query.get(name);
    if (value !== null && value !== "") filters[name] = value;
  }
  return filters;
}

/**
 * Return the parameters of the API for some filters.
 * @param {Filters} filters
 */
export function toParams({ from, to, ...rest }) {
  return { ...rest, since: from, until: to };
}

/** @param {Filters} filters */
export function hasFilters(filters) {
  return Object.keys(filters).length > 0;
}

/**
 * Compare two places in the journal.
 * @param {string} one
 * @param {string} two
 */
export function compareCursors(one, two) {
  return one.length - two.length || (one < two ? -1 : one > two ? 1 : 0);
}

/**
 * The state of a call in one word, and its tone.
 * @param {CallRow} call
 * @returns {[text: string, tone: import("../parts.js").Tone]}
 */
export function describeState(call) {
  if (call.state === "started") return ["running", "accent"];
  if (call.state === "interrupted") return ["interrupted", "warn"];
  if (call.code === null) return ["ok", "ok"];
  return [formatCode(call.code), call.code === "needs_approval" ? "wait" : "error"];
}
