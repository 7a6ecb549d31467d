"""Clients of the newer protocol receive how long lists may be kept, and lists are the same in every process."""

import subprocess
import sys

import pytest
from mcp.client.client import Client

from spindle import Executor, Tool, ToolRegistry, tool
from spindle.errors import UsageError
from spindle.mcp.server.cache_hints import check_scope
from spindle.mcp.server.tool_list import ToolLists
from spindle.mcp.server.tool_server import ToolServer

pytestmark = pytest.mark.anyio


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.mark.parametrize(("mode", "expected"), [("2026-07-28", (90_000, "private")), ("legacy", (0, "private"))])
async def test_a_list_says_how_long_it_may_be_kept(mode: str, expected: tuple[int, str]) -> None:
    registry = ToolRegistry([add])
    server = ToolServer(Executor(registry), registry, cache_seconds=90)
    async with Client(server.sdk, mode=mode) as client:
        listed = await client.list_tools()

    assert (listed.ttl_ms or 0, listed.cache_scope or "private") == expected


@pytest.mark.parametrize("seconds", [-1, 86_401, float("nan"), float("inf")])
async def test_seconds_beyond_a_day_are_refused(seconds: float) -> None:
    registry = ToolRegistry([add])

    with pytest.raises(UsageError) as caught:
        ToolServer(Executor(registry), registry, cache_seconds=seconds)

    assert caught.value.field == "cache_seconds"


async def test_lists_that_differ_between_clients_are_not_public() -> None:
    check_scope("public", has_tokens=False)
    check_scope("private", has_tokens=True)
    with pytest.raises(UsageError):
        check_scope("public", has_tokens=True)


def upstream(server: str, name: str) -> tuple[Tool, tuple[str, str]]:
    made = Tool(
        name=f"mcp__{server}__{name}",
        description="Does it.",
        input_schema={"type": "object"},
        handler=lambda *_: "",
        meta={"mcp": {"server": server, "tool": name, "meta": {"b": 1, "a": {"d": 2, "c": 3}}}},
    )
    return made, (server, name)


async def test_a_list_does_not_depend_on_which_server_connected_first() -> None:
    def build(*order: tuple[str, str]) -> bytes:
        registry = ToolRegistry([add])
        for each in order:
            made, known = upstream(*each)
            registry.register(made, mcp=known)
        return ToolLists(structured=True).get(registry, None).definitions.json

    tools = [("a", "one"), ("a", "two"), ("b", "one")]

    assert build(*tools) == build(*reversed(tools)) == build(tools[1], tools[2], tools[0])


PROGRAM = """
import sys
from tests.mcp.server.test_cache_hints import add, upstream
from spindle import ToolRegistry
from spindle.mcp.server.tool_list import ToolLists
registry = ToolRegistry([add])
for name in ("one", "two"):
    made, known = upstream("s", name)
    registry.register(made, mcp=known)
listed = ToolLists(structured=True).get(registry, None)
sys.stdout.write(listed.build_page(0).model_dump_json(by_alias=True, exclude_none=True))
"""


@pytest.mark.slow
def test_the_bytes_of_a_list_are_the_same_in_every_process() -> None:
    def run(seed: str) -> str:
        command = [sys.executable, "-c", PROGRAM]
        return subprocess.run(
            command, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    assert run("1") == run("2") != ""
