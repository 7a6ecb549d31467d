// @ts-check
// What the API says about the flow of a session, and the words and colours for it.

import { badge } from "../parts.js";

/**
 * @typedef {object} SessionInList
 * @property {string} session_id
 * @property {string} last_at
 * @property {string} last_tool
 * @property {string | null} turn_id
 * @property {Record<string, unknown> | null} caller
 * @property {boolean | null} is_tainted
 * @property {boolean} was_asked
 */
/**
 * @typedef {object} SourceInFlow
 * @property {number} number
 * @property {string} at
 * @property {string} label
 * @property {string} text
 * @property {string} tool
 * @property {string} call_id
 * @property {string | null} key
 * @property {boolean} taints
 * @property {boolean} is_outside
 */
/**
 * @typedef {object} ValueInFlow
 * @property {string} path
 * @property {string} role
 * @property {boolean} is_declared
 * @property {string} value
 * @property {string} origin
 * @property {string} detail
 * @property {number | null} source
 */
/**
 * @typedef {object} CallInFlow
 * @property {string} key
 * @property {string} tool_call_id
 * @property {string} tool
 * @property {string | null} turn_id
 * @property {string} started_at
 * @property {string} state
 * @property {string | null} code
 * @property {string | null} label
 * @property {number} source_count
 * @property {boolean} is_judged
 * @property {boolean} was_tainted
 * @property {boolean} was_asked
 * @property {string[]} reasons
 * @property {ValueInFlow[]} values
 */
/**
 * @typedef {object} SessionDetail
 * @property {string} session_id
 * @property {boolean} has_policy
 * @property {boolean} is_tainted
 * @property {boolean} is_complete
 * @property {number} call_count
 * @property {number} asked_count
 * @property {number} source_count
 * @property {SourceInFlow[]} sources
 * @property {CallInFlow[]} calls
 */
/**
 * @typedef {object} Decision
 * @property {string} key
 * @property {boolean} is_known
 * @property {boolean} is_judged
 * @property {boolean} was_tainted
 * @property {boolean} was_asked
 * @property {string[]} reasons
 * @property {boolean} would_ask
 * @property {string[]} reasons_now
 * @property {ValueInFlow[]} values
 * @property {{id: string, status: string, by: string | null, at: string | null} | null} answer
 */

/** @param {boolean | null} isTainted */
export function drawTaint(isTainted) {
  if (isTainted === null) return badge("unknown", "quiet", "No record tells whether third-party content has entered");
  return isTainted
    ? badge("tainted", "warn", "Third-party content has entered the session")
    : badge("clean", "ok", "No third-party content has entered the session");
}

/** @type {Record<string, [text: string, tone: import("../parts.js").Tone, title: string]>} */
const LABELS = {
  trusted: ["trusted", "ok", "Its instructions may be followed"],
  "first-party": ["first-party", "accent", "Data of the application; it does not taint"],
  "third-party-public": ["third-party, public", "warn", "Content of others, which taints the session"],
  "third-party-private": ["third-party, private", "warn", "Private content of others, which taints the session"],
};

/** @param {string} label */
export function drawLabel(label) {
  const [text, tone, title] = LABELS[label] ?? [label, "quiet", ""];
  return badge(text, tone, title);
}

/** @param {string} label */
export function isForeign(label) {
  return label.startsWith("third-party");
}

/** @type {Record<string, [text: string, tone: import("../parts.js").Tone]>} */
const ORIGINS = {
  user: ["user", "ok"],
  directory: ["directory", "ok"],
  trusted: ["trusted result", "ok"],
  made: ["made here", "ok"],
  named: ["named by the user", "ok"],
  default: ["default", "ok"],
  foreign: ["foreign", "warn"],
  nowhere: ["unknown origin", "warn"],
};

/** @param {string} origin */
export function drawOrigin(origin) {
  const [text, tone] = ORIGINS[origin] ?? [origin, "quiet"];
  return badge(text, tone);
}
