"""The official inspector's command line against `spindle serve`, over a pipe and over HTTP."""

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.serving import COMMAND, npm_program, run_json, served_over_http

pytestmark = pytest.mark.slow

Inspect = Callable[..., Any]


@pytest.fixture(params=["stdio", "http"])
def inspect(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Inspect]:
    inspector = [*npm_program("mcp-inspector"), "--cli"]
    if request.param == "stdio":
        server = {"command": COMMAND[0], "args": [*COMMAND[1:], "serve", "--stdio", "--state", str(tmp_path / "state")]}
        (tmp_path / "client.json").write_text(json.dumps({"mcpServers": {"spindle": server}}))
        where = ["--config", str(tmp_path / "client.json"), "--server", "spindle"]
        yield lambda *arguments: run_json([*inspector, *where, *arguments], tmp_path)
        return
    with served_over_http(tmp_path) as address:
        where = [address, "--transport", "http"]
        yield lambda *arguments: run_json([*inspector, *where, *arguments], tmp_path)


def test_the_inspector_lists_and_calls_tools(inspect: Inspect) -> None:
    listed = inspect("--method", "tools/list")
    names = {each["name"] for each in listed["tools"]}
    good = inspect("--method", "tools/call", "--tool-name", "calculate", "--tool-arg", "expression=6*7")
    bad = inspect("--method", "tools/call", "--tool-name", "calculate")

    assert {"calculate", "read_file", "artifact_head"} <= names
    assert "42" in good["content"][0]["text"]
    assert good["isError"] is False
    assert bad["isError"] is True
    assert "expression" in bad["content"][0]["text"]
