// @ts-check
// What the API answers about approvals, and how it is told in words.

/**
 * @typedef {object} Approval
 * @property {string} id
 * @property {"pending" | "executing" | "interrupted" | "finished" | "denied" | "expired"} status
 * @property {string} tool
 * @property {string} tool_call_id
 * @property {Record<string, unknown> | null} args
 * @property {string} shown
 * @property {string[]} reasons
 * @property {string | null} session_id
 * @property {string | null} turn_id
 * @property {Record<string, unknown> | null} caller
 * @property {string} created_at
 * @property {string} expires_at
 * @property {string | null} answered_at
 * @property {string | null} answered_by
 * @property {Record<string, unknown> | null} ran
 * @property {boolean} is_edited
 */

/** @typedef {{approvals: Approval[], next_cursor: string | null, waiting: number}} ApprovalList */
/** @typedef {{path: string, text: string, more_chars: number, origin: string | null, detail: string | null}} Value */
/** @typedef {{key: string, state: string, code: string | null, error: string | null, text: string | null, artifact_id: string | null}} RanCall */

/**
 * @typedef {object} Detail
 * @property {Approval} approval
 * @property {string} args_text   JSON with all digits of its numbers
 * @property {string | null} ran_text
 * @property {Value[]} values
 * @property {number} more_values
 * @property {"known" | "unknown"} origins
 * @property {boolean} tainted
 * @property {"same" | "changed" | "gone"} tool_state
 * @property {Record<string, unknown> | null} input_schema
 * @property {RanCall | null} call
 */

/**
 * @typedef {object} Outcome
 * @property {boolean} ok
 * @property {string | null} code
 * @property {string | null} error
 * @property {string} model_text
 * @property {number} duration_ms
 * @property {number} attempts
 * @property {{id: string | null, bytes?: number, lines?: number} | null} artifact
 */

/** @typedef {{approval: Approval, ran_text: string | null, outcome: Outcome, call: RanCall | null}} Answered */

/** @type {Record<Approval["status"], [text: string, tone: import("../parts.js").Tone]>} */
const STATUSES = {
  pending: ["waiting", "wait"],
  executing: ["approved, running", "accent"],
  interrupted: ["approved, interrupted", "error"],
  finished: ["approved", "ok"],
  denied: ["denied", "error"],
  expired: ["expired", "quiet"],
};

/** @param {Approval} approval */
export function describeStatus(approval) {
  return STATUSES[approval.status];
}

/**
 * Format how long something is still valid, in the same width for a long time.
 * @param {string} until
 */
export function formatLeft(until) {
  const seconds = Math.max(0, Math.floor((new Date(until).getTime() - Date.now()) / 1000));
  const minutes = Math.floor(seconds / 60);
  if (seconds === 0) return "expired";
  if (minutes < 60) return `${minutes}:${String(seconds % 60).padStart(2, "0")} left`;
  return minutes < 2880 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min left` : `${Math.floor(minutes / 1440)} days left`;
}

/** Characters that cannot be seen, or that change the direction of the text around them. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u00a0\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u202f\u205f\u2800\u3000\u3164\ufe00-\ufe0f\uffa0\u{16fe4}\u{1d159}\u{e0100}-\u{e01ef}]|[\ud800-\udfff](?![\udc00-\udfff])/gu;

/**
 * Write characters that cannot be seen as numbers: a person must see what is there.
 * @param {string} text
 */
export function reveal(text) {
  return text.replace(INVISIBLE, (found) =>
    [...Array(found.length).keys()].map((at) => `\\u${found.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""),
  );
}

/**
 * Write JSON text to be read or edited; what cannot be seen is written as numbers, which JSON allows.
 * @param {string} text
 */
export function toEditable(text) {
  return text.split("\n").map(reveal).join("\n");
}
