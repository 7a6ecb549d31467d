from pathlib import Path

import pytest

from spindle import Backends, Capabilities, ToolContext, tool
from spindle.capabilities import FileReach, validate
from spindle.capabilities.files.backend import FilesBackend
from spindle.capabilities.network.backend import NetworkBackend


@tool(capabilities=Capabilities(network=["api.shop.example", "*.cdn.example"], files=FileReach(["data"], ["out"])))
async def work(ctx: ToolContext) -> None:
    """Work."""


def test_a_need_nothing_serves_is_listed() -> None:
    assert [(each.tool, each.capability) for each in validate(work, Backends())] == [
        ("work", "network"),
        ("work", "files"),
    ]


def test_partly_granted_needs_are_listed_by_name(tmp_path: Path) -> None:
    policy = Backends(network=NetworkBackend(["*.shop.example"]), files=FilesBackend(tmp_path, write=["elsewhere"]))
    found = validate(work, policy)

    assert [each.capability for each in found] == ["network", "files"]
    assert "*.cdn.example" in found[0].message
    assert "out" in found[1].message


@pytest.mark.parametrize("hosts", [["*"], ["api.shop.example", "*.cdn.example"], ["*.example"]])
def test_a_policy_that_grants_everything_has_nothing_listed(tmp_path: Path, hosts: list[str]) -> None:
    assert validate(work, Backends(network=NetworkBackend(hosts), files=FilesBackend(tmp_path))) == []


def test_invalid_hosts_and_paths_are_listed_beside_other_needs(tmp_path: Path) -> None:
    @tool(capabilities=Capabilities(network=["https://a.example/", "b.example"], files=FileReach(["../x", "data"])))
    async def wrong() -> None:
        """Declare what cannot be."""

    policy = Backends(network=NetworkBackend(["c.example"]), files=FilesBackend(tmp_path, read=["logs"]))
    found = validate(wrong, policy)

    assert [each.capability for each in found] == ["network", "network", "files", "files"]
    named = ("https://a.example/", "b.example", "../x", "data")
    assert all(name in each.message for name, each in zip(named, found, strict=True))


def test_a_secret_that_a_mapping_does_not_hold_is_listed(tmp_path: Path) -> None:
    @tool(capabilities=Capabilities(secrets=["KEY", "shop/*", "GONE", "lost/*"]))
    async def buy() -> None:
        """Buy."""

    found = validate(buy, Backends.local(tmp_path, secrets={"KEY": "1", "shop/key": "2"}))

    assert ["GONE" in found[0].message, "lost/*" in found[1].message, len(found)] == [True, True, 2]
    assert validate(buy, Backends.local(tmp_path, secrets=lambda _name: None)) == []


def test_a_tool_without_needs_asks_for_nothing() -> None:
    @tool
    def plain() -> None:
        """Be plain."""

    assert validate(plain, Backends()) == []
