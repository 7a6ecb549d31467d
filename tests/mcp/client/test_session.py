"""One invalid tool does not cost a server its others."""

from collections.abc import Sequence
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import HEADER_MISMATCH, CallToolResult, ListToolsResult, ServerCapabilities, Tool, ToolsCapability

from spindle.mcp.client.listing_filter import keep_valid_tools
from spindle.mcp.client.session import UpstreamSession
from spindle.mcp.client.task_ledger import CallTask, TaskLedger

NEWER = "2026-07-28"

FINE: dict[str, Any] = {"name": "fine", "inputSchema": {"type": "object"}}
LISTINGS: dict[str, dict[str, Any]] = {
    "2025-11-25": {"tools": []},
    "2026-07-28": {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "public"},
}


@pytest.mark.parametrize("version", LISTINGS)
@pytest.mark.parametrize(
    "odd",
    [{"name": "odd"}, {"name": 3, "inputSchema": {"type": "object"}}, {"name": "odd", "inputSchema": []}, "odd", None],
    ids=["no schema", "no name", "no object", "a text", "nothing"],
)
def test_an_invalid_tool_definition_is_dropped_and_reported(version: str, odd: Any) -> None:
    reported: list[str] = []

    assert keep_valid_tools([FINE, odd, FINE], LISTINGS[version], version, reported.append) == [FINE, FINE]
    assert len(reported) == 1


def test_a_type_that_is_left_out_where_there_must_be_one_means_an_object() -> None:
    tool: dict[str, Any] = {"name": "t", "inputSchema": {}, "outputSchema": {"$ref": "#/$defs/a", "$defs": {"a": {}}}}
    (repaired,) = keep_valid_tools([tool], LISTINGS["2025-11-25"], "2025-11-25", pytest.fail)

    assert repaired["inputSchema"] == {"type": "object"}
    assert repaired["outputSchema"]["type"] == "object"


def test_a_result_that_may_be_any_value_stays_so() -> None:
    tool: dict[str, Any] = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {"enum": [1, 2]}}

    assert keep_valid_tools([tool], LISTINGS["2026-07-28"], "2026-07-28", pytest.fail) == [tool]


class OutdatedSession:
    """A session whose first call is rejected because the tool's definition is out of date."""

    protocol_version = NEWER
    server_capabilities = ServerCapabilities(tools=ToolsCapability())

    def __init__(self) -> None:
        self.calls = 0
        self.listings = 0

    async def call_tool(self, *_args: Any, **_more: Any) -> CallToolResult:
        self.calls += 1
        if self.calls == 1:
            raise MCPError(HEADER_MISMATCH, "list again")
        return CallToolResult(content=[])

    def note_task_support(self, tools: Sequence[Tool]) -> None:
        assert [tool.name for tool in tools] == ["t"]

    async def list_tools(self, **_more: Any) -> ListToolsResult:
        self.listings += 1
        return ListToolsResult(tools=[Tool(name="t", description="New.", input_schema={"type": "object"})])


@pytest.mark.anyio
@pytest.mark.parametrize("is_allowed", [True, False])
async def test_a_call_is_repeated_with_a_new_definition_only_if_that_is_allowed(is_allowed: bool) -> None:
    inner, seen = OutdatedSession(), list[str]()
    session: Any = UpstreamSession(inner, None)  # pyright: ignore[reportArgumentType] - doubles

    task = CallTask(ledger=TaskLedger(), call_id=None, server="s", tool="t")

    def may_repeat(listed: list[Tool]) -> bool:
        seen.extend(str(each.description) for each in listed)
        return is_allowed

    async def call() -> CallToolResult:
        return await session.call("t", {}, seconds=1, on_progress=None, ask=None, task=task, may_repeat=may_repeat)

    if is_allowed:
        assert (await call()).content == []
    else:
        with pytest.raises(MCPError):
            await call()
    assert (inner.calls, inner.listings, seen) == (2 if is_allowed else 1, 1, ["New."])
