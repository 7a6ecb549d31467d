"""A server's description: plain data that names what is wrong with it."""

import pickle
from typing import Any

import pytest

from spindle.errors import InvalidServerSpecError
from spindle.mcp import ToolSettings
from spindle.mcp.spec import ServerSpec


def test_a_command_or_an_address_is_enough() -> None:
    assert ServerSpec(name="a", command="npx", args=["-y", "x"]).args == ("-y", "x")  # pyright: ignore[reportArgumentType]
    assert ServerSpec(name="a", command="x").transport == "stdio"
    assert ServerSpec(name="a_b", url="https://mcp.example/mcp").transport == "http"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": " a"}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": 3}, "name"),
        ({}, "command"),
        ({"command": "x", "url": "http://h/"}, "command"),
        ({"command": " "}, "command"),
        ({"command": "x\0y"}, "command"),
        ({"command": "x", "args": "-y"}, "args"),
        ({"command": "x", "args": [1]}, "args"),
        ({"command": "x", "env": ["A"]}, "env"),
        ({"command": "x", "env": {"A": 1}}, "env"),
        ({"command": "x", "env": {"A=B": "1"}}, "env"),
        ({"command": "x", "env": {"A": "1"}, "env_secrets": {"A": "s"}}, "env"),
        ({"command": "x", "cwd": ""}, "cwd"),
        ({"command": "x", "headers": {"A": "1"}}, "headers"),
        ({"url": "ftp://h/"}, "url"),
        ({"url": "http:///mcp"}, "url"),
        ({"url": "http://h:99999/"}, "url"),
        ({"url": "http://u:p@h/"}, "url"),
        ({"url": "http://h/#x"}, "url"),
        ({"url": "http://h/ x"}, "url"),
        ({"url": 3}, "url"),
        ({"url": "http://h/", "env": {"A": "1"}}, "env"),
        ({"url": "http://h/", "args": ["x"]}, "args"),
        ({"url": "http://h/", "headers": {"A b": "1"}}, "headers"),
        ({"url": "http://h/", "headers": {"A": "1\r\nB: 2"}}, "headers"),
        ({"url": "http://h/", "headers": {"Content-Type": "x"}}, "headers"),
        ({"url": "http://h/", "headers": {"Mcp-Session-Id": "x"}}, "headers"),
        ({"url": "http://h/", "headers": {"AUTHORIZATION": "Bearer abc"}}, "headers"),
        ({"url": "http://h/", "headers": {"X-Key": "1"}, "header_secrets": {"x-key": "s"}}, "headers"),
        ({"command": "x", "timeout_seconds": 0}, "timeout_seconds"),
        ({"command": "x", "timeout_seconds": True}, "timeout_seconds"),
        ({"command": "x", "timeout_seconds": float("inf")}, "timeout_seconds"),
        ({"command": "x", "start_timeout_seconds": "5"}, "start_timeout_seconds"),
        ({"command": "x", "max_result_chars": 0}, "max_result_chars"),
        ({"command": "x", "required": "yes"}, "required"),
        ({"command": "x", "tools": "ok"}, "tools"),
        ({"command": "x", "tool_settings": {"a": {"hidden": True}}}, "tool_settings"),
        ({"command": "x", "tools": ["a"], "tool_settings": {"a": ToolSettings(hidden=True)}}, "tool_settings"),
        ({"command": "x", "sandbox": "maybe"}, "sandbox"),
        ({"command": "x", "read": "/x"}, "read"),
        ({"command": "x", "network": "off"}, "network"),
        ({"command": "x", "home": ""}, "home"),
        ({"command": "x", "max_processes": 0}, "max_processes"),
        ({"command": "x", "max_memory_bytes": 1.5}, "max_memory_bytes"),
        ({"url": "http://h/", "write": ["/x"]}, "write"),
        ({"url": "http://h/", "max_cpu_seconds": 1}, "max_cpu_seconds"),
    ],
    ids=str,
)
def test_a_bad_value_is_refused_by_its_name(given: dict[str, Any], field: str) -> None:
    values: dict[str, Any] = {"name": "a"} | given
    with pytest.raises(InvalidServerSpecError) as caught:
        ServerSpec(**values)

    assert caught.value.field == field


def test_a_literal_bearer_token_is_refused_without_being_shown_and_with_a_way_out() -> None:
    with pytest.raises(InvalidServerSpecError) as caught:
        ServerSpec(name="a", url="http://h/", headers={"authorization": "Bearer hush-hush"})

    assert "hush" not in str(caught.value)
    assert "header_secrets" in str(caught.value)


def test_values_that_may_be_secret_are_not_shown() -> None:
    shown = repr(ServerSpec(name="a", command="x", env={"API_KEY": "hush"}))
    shown += repr(ServerSpec(name="a", url="http://h/", headers={"X-Key": "hush"}))

    assert "hush" not in shown


def test_a_spec_is_frozen_a_copy_and_travels() -> None:
    env = {"A": "1"}
    spec = ServerSpec(name="a", command="x", env=env)
    env["A"] = "2"

    assert spec.env == {"A": "1"}
    assert pickle.loads(pickle.dumps(spec)) == spec
    with pytest.raises(AttributeError):
        spec.name = "b"  # pyright: ignore[reportAttributeAccessIssue]
