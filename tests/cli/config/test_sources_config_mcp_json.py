"""Files of desktop clients and editors."""

import json
from pathlib import Path
from typing import Any

import pytest

from spindle.cli.config.sources import read_mcp_json
from spindle.errors import InvalidConfigError


def written(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "client.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_both_shapes_are_read_and_the_rest_of_the_file_is_left_alone(tmp_path: Path) -> None:
    entry = {"command": "npx", "args": ["-y", "x"], "env": {"A": "1"}}

    desktop = read_mcp_json(written(tmp_path, {"mcpServers": {"x": entry}, "globalShortcut": ""}))
    editor = read_mcp_json(written(tmp_path, {"servers": {"x": {**entry, "type": "stdio"}}, "inputs": []}))

    assert desktop.servers == editor.servers == {"x": entry}
    assert desktop.notes == editor.notes == ()


def test_comments_and_trailing_commas_are_taken_as_editors_take_them(tmp_path: Path) -> None:
    text = '{ // "a": 1\n "servers": { /* two\nlines */ "x": {"url": "http://x//y", "note": "/* no */",}, },\n}'

    found = read_mcp_json(written(tmp_path, text))

    assert found.servers == {"x": {"url": "http://x//y"}}
    assert len(found.notes) == 1


def test_a_server_that_is_off_stays_off_and_may_speak_anything(tmp_path: Path) -> None:
    servers = {"a": {"command": "x", "disabled": True}, "b": {"type": "sse", "url": "http://x", "enabled": False}}

    found = read_mcp_json(written(tmp_path, {"mcpServers": servers})).servers

    assert found == {"a": {"command": "x", "enabled": False}}


def test_a_server_whose_transport_is_not_spoken_is_left_out_and_costs_no_other(tmp_path: Path) -> None:
    servers = {"a": {"command": "x"}, "b": {"type": "sse", "url": "http://x"}}

    found = read_mcp_json(written(tmp_path, {"mcpServers": servers}))

    assert list(found.servers) == ["a"]
    [why] = found.skipped
    assert "mcpServers.b" in why
    assert "'sse'" in why


def test_a_credential_in_clear_is_noted_but_never_repeated(tmp_path: Path) -> None:
    servers = {"a": {"command": "x", "env": {"GITHUB_TOKEN": "ghp_0123456789abcdefghij01"}}}

    found = read_mcp_json(written(tmp_path, {"mcpServers": servers}))

    [note] = found.notes
    assert "env.GITHUB_TOKEN" in note
    assert "ghp_" not in note
    assert found.servers["a"]["env"]["GITHUB_TOKEN"].startswith("ghp_")


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"mcpServers": []}', '{"mcpServers": {"a": 1}}', "[" * 100_000, '{"a": NaN}'],
    ids=["empty", "broken", "list", "no servers", "servers list", "entry number", "deep", "nan"],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, content: str) -> None:
    path = written(tmp_path, content)

    with pytest.raises(InvalidConfigError) as caught:
        read_mcp_json(path)

    assert str(caught.value).startswith(str(path))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError):
        read_mcp_json(tmp_path / "none.json")
