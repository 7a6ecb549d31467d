// @ts-check
// What the API says about turns, and the words for it.

/**
 * @typedef {object} TurnSummary
 * @property {string} turn_id
 * @property {string} session_id
 * @property {string} status
 * @property {string} started_at
 * @property {string} updated_at
 * @property {string | null} ended_at
 * @property {Record<string, unknown> | null} caller
 * @property {boolean} dry_run
 * @property {string} request
 * @property {string} text
 * @property {number} iteration_count
 * @property {number} call_count
 * @property {number} error_count
 * @property {number} waiting_count
 * @property {number | null} input_tokens
 * @property {number | null} output_tokens
 * @property {number | null} cost_usd
 */
/**
 * @typedef {object} TurnCall
 * @property {string} tool_call_id
 * @property {string} tool
 * @property {string | null} key
 * @property {boolean} is_done
 * @property {string | null} code
 * @property {number | null} chars
 * @property {string | null} artifact_id
 * @property {string | null} started_at
 * @property {number | null} duration_ms
 */
/**
 * @typedef {object} TurnIteration
 * @property {number} number
 * @property {string} started_at
 * @property {string | null} ended_at
 * @property {string} text
 * @property {string} thoughts
 * @property {TurnCall[]} calls
 * @property {number} calls_omitted
 * @property {number | null} input_tokens
 * @property {number | null} output_tokens
 * @property {number | null} cost_usd
 */
/**
 * @typedef {object} TurnGate
 * @property {string} id
 * @property {"gate" | "approval"} kind
 * @property {string} reason
 * @property {string | null} tool
 * @property {string | null} tool_call_id
 * @property {number} iteration
 * @property {string} opened_at
 * @property {string | null} closed_at
 * @property {string | null} result
 * @property {unknown} answer
 * @property {string | null} by
 */
/**
 * @typedef {object} ContextPart
 * @property {string} kind
 * @property {string | null} name
 * @property {number} chars
 * @property {number} tokens
 * @property {number} count
 */
/**
 * @typedef {object} TurnDetail
 * @property {TurnSummary} summary
 * @property {string} request
 * @property {string} text
 * @property {string | null} error
 * @property {number} resumed_count
 * @property {TurnIteration[]} iterations
 * @property {number} iterations_omitted
 * @property {TurnGate[]} gates
 * @property {{id: string, tool: string | null, tool_call_id: string | null, iteration: number}[]} artifacts
 * @property {Record<string, unknown>} usage
 * @property {ContextPart[]} context
 */

/** @type {Record<string, import("../parts.js").Tone>} */
const TONES = { running: "accent", suspended: "wait", ok: "ok", error: "error", limit: "error", nack: "warn", aborted: "warn" };

/** @param {string} status */
export function toneOfStatus(status) {
  return TONES[status] ?? "quiet";
}

/** @param {number | null} dollars */
export function formatCost(dollars) {
  if (dollars === null || dollars === 0) return "";
  return `$${dollars >= 1 ? dollars.toFixed(2) : dollars.toPrecision(2)}`;
}

/**
 * Return how long a turn took, or has been running.
 * @param {{started_at: string, ended_at: string | null, updated_at: string}} turn
 */
export function getDuration(turn) {
  return Date.parse(turn.ended_at ?? turn.updated_at) - Date.parse(turn.started_at);
}

/** @type {Record<string, string>} */
const KINDS = {
  system_prompt: "System prompt",
  tool_definitions: "Tool definitions",
  user: "Messages of the user",
  assistant: "Messages of the model",
  calls: "Calls of",
  results: "Results of",
  retrieved: "Retrieved texts",
  memories: "Memories",
};

/** @param {ContextPart} part */
export function namePart(part) {
  const kind = KINDS[part.kind] ?? part.kind;
  if (part.kind !== "calls" && part.kind !== "results") return kind;
  return `${kind} ${part.name ?? "other tools"}`;
}
