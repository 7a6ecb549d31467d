// @ts-check
// The answers of the API that the views of an artifact use.

/**
 * @typedef {object} Entry
 * @property {string} id
 * @property {string | null} turn_id
 * @property {number} byte_length
 * @property {string} created_at
 */
/**
 * @typedef {object} Facts
 * @property {number} byte_length
 * @property {number} line_count
 * @property {string} media_type
 * @property {boolean} is_binary
 * @property {number | null} width
 * @property {number | null} height
 * @property {"lines" | "hex" | "json" | "markdown" | "table"} best_view
 */
/**
 * @typedef {object} Line
 * @property {number} number
 * @property {number} byte
 * @property {string} text
 * @property {number} more_bytes
 */
/**
 * @typedef {object} LinePage
 * @property {Line[]} lines
 * @property {number | null} next_line
 * @property {number} line_count
 * @property {number} byte_length
 */
/**
 * @typedef {object} Piece
 * @property {number} line
 * @property {string} text
 * @property {number} start
 * @property {number} end
 * @property {number} line_start
 * @property {number} line_end
 * @property {number | null} previous
 * @property {number | null} next
 */
/**
 * @typedef {object} Hit
 * @property {number} line
 * @property {number} byte
 * @property {string} text
 * @property {boolean} is_context
 * @property {number} match_start
 * @property {number} match_end
 * @property {boolean} is_cut_before
 * @property {boolean} is_cut_after
 */
/**
 * @typedef {object} SearchPage
 * @property {Hit[]} rows
 * @property {number} hit_count
 * @property {number} scanned_from
 * @property {number} scanned_to
 * @property {number | null} next_byte
 * @property {number} byte_length
 */
/**
 * @typedef {object} JsonNode
 * @property {string | null} name
 * @property {number} index
 * @property {string} kind
 * @property {number} byte
 * @property {number | null} byte_length
 * @property {string} preview
 * @property {boolean} is_cut
 * @property {number | null} count
 */
/**
 * @typedef {object} Members
 * @property {{kind: string, nodes: JsonNode[], is_out_of_time: boolean, error: string | null}} members
 * @property {string | null} next_cursor
 */
/**
 * What the tabs of one artifact share.
 * @typedef {object} Reading
 * @property {string} id
 * @property {Facts} facts
 * @property {AbortSignal} signal                              aborted when another artifact is shown
 * @property {import("./search.js").Finding} finding
 * @property {(tab: string) => void} choose                    shows another tab
 * @property {number} line                                     the line that the tab of lines shows first
 */

export {};
