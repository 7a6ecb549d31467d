// @ts-check
// The answers of the endpoints of health; the OpenAPI document describes their fields.

/**
 * @typedef {object} ServerReach
 * @property {string | null} sandbox
 * @property {boolean} is_confined
 * @property {boolean} network
 * @property {string[]} read
 * @property {string[]} write
 * @property {number} hidden
 * @property {Record<string, number>} limits
 * @property {string[]} notes
 */
/**
 * @typedef {object} UpstreamHealth
 * @property {string} name
 * @property {string} state
 * @property {string} transport
 * @property {string | null} place
 * @property {boolean} is_required
 * @property {boolean} is_enabled
 * @property {boolean} is_trusted
 * @property {string | null} error
 * @property {number} restarts
 * @property {number} tools
 * @property {string | null} protocol_version
 * @property {number | null} latency_ms
 * @property {number[]} latencies_ms
 * @property {boolean} answers_pings
 * @property {boolean | null} is_locked
 * @property {number} quarantined
 * @property {{kind: string, name: string, reason: string}[]} withheld
 * @property {string[]} secrets
 * @property {ServerReach | null} reach
 */
/**
 * @typedef {object} Sandbox
 * @property {string} kind
 * @property {string | null} mode
 * @property {number | null} commands
 * @property {string[]} enforced
 * @property {Record<string, string>} missing
 */
/**
 * @typedef {object} Stores
 * @property {number | null} spool_bytes
 * @property {number | null} spool_artifacts
 * @property {number | null} spool_max_bytes
 * @property {number | null} spool_max_age_days
 * @property {string | null} spool_problem
 * @property {number | null} journal_bytes
 * @property {string | null} journal_file
 */
/**
 * @typedef {object} HealthReport
 * @property {string} status
 * @property {string} name
 * @property {string} version
 * @property {string} started_at
 * @property {number} uptime_seconds
 * @property {number | null} running_calls  like some others, `null` for a profile
 * @property {number | null} sessions
 * @property {number | null} waiting_approvals
 * @property {number | null} abandoned_threads
 * @property {number} tools
 * @property {number | null} replicas
 * @property {Stores | null} stores
 * @property {Sandbox | null} sandbox
 * @property {UpstreamHealth[]} servers
 * @property {number} more_servers
 */
/**
 * @typedef {object} CallNumbers
 * @property {number} calls
 * @property {number} errors
 * @property {number} running
 * @property {number} interrupted
 * @property {number} asked   needs approval
 * @property {number | null} p50_ms
 * @property {number | null} p95_ms
 * @property {number | null} max_ms
 * @property {number} result_chars
 * @property {number} cost_usd
 */
/** @typedef {CallNumbers & {at: string}} ActivityPoint */
/** @typedef {CallNumbers & {tool: string | null}} ToolActivity */
/** @typedef {{tool: string | null, code: string | null, count: number}} ErrorCount */
/**
 * @typedef {object} Activity
 * @property {string} window
 * @property {string} started_from
 * @property {number} slot_seconds
 * @property {ActivityPoint[]} points
 * @property {CallNumbers} total
 * @property {ToolActivity[]} tools
 * @property {ErrorCount[]} errors
 * @property {{calls: number, counted_from: string | null, is_complete: boolean, is_current: boolean, problem: string | null}} progress
 * @property {number} revision
 */

export {};
