"""The results of calls as a client receives them: fenced or not, within the budget of the call."""

from dataclasses import dataclass

import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from spindle.bridges import mcp as dialect
from spindle.bridges.rendering import MediaSupport
from spindle.calls import CallOutcome
from spindle.mcp.server.tool_list import ToolList
from spindle.tools.declaration import Tool


@dataclass(frozen=True, kw_only=True, slots=True)
class CallResults:
    """Builds the results of a server's calls."""

    max_chars: int
    """The budget of the executor."""
    media: MediaSupport | None
    is_fenced: bool

    async def build(
        self, outcome: CallOutcome, tool: Tool | None, sent: ToolList | None, protocol_version: str
    ) -> types.CallToolResult:
        """Build the result of an outcome for a client that was sent this list of tools."""
        own = None if tool is None else tool.max_result_chars
        [result] = await dialect.results(
            [outcome],
            definitions=None if sent is None else sent.definitions,
            media=self.media,
            fenced=self.is_fenced,
            max_structured_chars=self.max_chars if own is None else min(self.max_chars, own),
            any_value=protocol_version in MODERN_PROTOCOL_VERSIONS,
        )
        return types.CallToolResult.model_validate(result)
