from pathlib import Path

import pytest

from spindle import Backends, Capabilities, ToolContext, tool
from spindle.capabilities import FileReach, validate
from spindle.capabilities.backends.files import FilesBackend
from spindle.capabilities.backends.http import NetworkBackend


@tool(capabilities=Capabilities(network=["api.shop.example", "*.cdn.example"], files=FileReach(["data"], ["out"])))
async def work(ctx: ToolContext) -> None:
    """Work."""


def test_a_need_nothing_serves_is_listed() -> None:
    assert [(each.tool, each.capability) for each in validate(work, Backends())] == [
        ("work", "network"),
        ("work", "files"),
    ]


def test_what_a_policy_grants_only_in_part_is_listed_by_name(tmp_path: Path) -> None:
    policy = Backends(network=NetworkBackend(["*.shop.example"]), files=FilesBackend(tmp_path, write=["elsewhere"]))
    found = validate(work, policy)

    assert [each.capability for each in found] == ["network", "files"]
    assert "*.cdn.example" in found[0].message
    assert "out" in found[1].message


@pytest.mark.parametrize("hosts", [["*"], ["api.shop.example", "*.cdn.example"], ["*.example"]])
def test_a_policy_that_grants_everything_has_nothing_listed(tmp_path: Path, hosts: list[str]) -> None:
    assert validate(work, Backends(network=NetworkBackend(hosts), files=FilesBackend(tmp_path))) == []


def test_a_tool_without_needs_asks_for_nothing() -> None:
    @tool
    def plain() -> None:
        """Be plain."""

    assert validate(plain, Backends()) == []
