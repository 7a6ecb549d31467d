"""Every span, attribute and metric name, in one place: the GenAI and MCP conventions, and our own under `spindle.`.

The conventions are still being developed (github.com/open-telemetry/semantic-conventions-genai, as of November 2026);
when they rename something, this is the file to change.
"""

from typing import Final

SCOPE: Final = "spindle"
"""The name of our tracer and our meter."""

# Operations: the values of `gen_ai.operation.name`, and the first words of the spans' names.
EXECUTE_TOOL: Final = "execute_tool"
INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
DISPATCH: Final = "spindle.dispatch"
ITERATION: Final = "spindle.iteration"

OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
AGENT_NAME: Final = "gen_ai.agent.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"

TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
"""Only where the user asked for contents."""
TOOL_RESULT: Final = "gen_ai.tool.call.result"
"""Only where the user asked for contents."""

TYPE_FUNCTION: Final = "function"
TYPE_EXTENSION: Final = "extension"
TYPE_DATASTORE: Final = "datastore"

ERROR_TYPE: Final = "error.type"
OTHER: Final = "_OTHER"
"""What the conventions write where a value would have too many forms, such as names no tool has."""

MCP_METHOD: Final = "mcp.method.name"
MCP_SESSION_ID: Final = "mcp.session.id"
MCP_PROTOCOL_VERSION: Final = "mcp.protocol.version"
MCP_RESOURCE_URI: Final = "mcp.resource.uri"
JSONRPC_REQUEST_ID: Final = "jsonrpc.request.id"
RPC_STATUS_CODE: Final = "rpc.response.status_code"

TRACE_KEYS: Final = ("traceparent", "tracestate", "baggage")
"""What carries the trace context in the `_meta` of an MCP request."""

# Our own.
OUTCOME: Final = "spindle.outcome.code"
"""`ok`, or the code of the `Err`."""
CAUSE: Final = "spindle.error.cause"
"""The class of what the handler raised; never its message."""
ATTEMPTS: Final = "spindle.attempts"
TURN_ID: Final = "spindle.turn.id"
TURN_STATUS: Final = "spindle.turn.status"
DISPATCH_ID: Final = "spindle.dispatch.id"
ITERATION_NUMBER: Final = "spindle.iteration.number"
ITERATIONS: Final = "spindle.iterations"
MCP_SERVER: Final = "spindle.mcp.server"
DRY_RUN: Final = "spindle.dry_run"
ARGUMENTS_BYTES: Final = "spindle.arguments.size"
RESULT_BYTES: Final = "spindle.result.size"
"""Of the whole result, where it is known without reading it."""
RESULT_SHOWN_CHARS: Final = "spindle.result.shown_chars"
RESULT_ARTIFACT: Final = "spindle.result.artifact"
RESULT_TRIMMED: Final = "spindle.result.trimmed"
RESULT_MEDIA: Final = "spindle.result.media_count"

# Metrics.
TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
TOOL_DURATION_BUCKETS: Final = (
    *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64),
    *(1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
)
AGENT_DURATION: Final = "gen_ai.invoke_agent.duration"
AGENT_DURATION_BUCKETS: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
OUTCOMES: Final = "spindle.tool.outcomes"
BYTES_IN: Final = "spindle.tool.arguments.size"
BYTES_OUT: Final = "spindle.tool.result.size"
TRIMS: Final = "spindle.tool.result.trims"
ABANDONED_THREADS: Final = "spindle.executor.abandoned_threads"
