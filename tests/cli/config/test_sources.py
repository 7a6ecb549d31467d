"""Which file configures a run."""

import json
from pathlib import Path
from typing import Any

import pytest

from spindle.cli.config.sources import (
    FoundConfig,
    config_home,
    expand,
    expand_path,
    find_config,
    read_mcp_json,
    state_home,
)
from spindle.errors import InvalidConfigError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "home/project/deep").mkdir(parents=True)
    return tmp_path


def env(tree: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(tree / "home"), **more}


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("", encoding="utf-8")
    return path


def test_the_named_file_wins_then_the_variable_then_the_nearest_then_the_users_own(tree: Path) -> None:
    deep = tree / "home/project/deep"
    own, near, other, named = (
        write(tree / "home/.config/spindle/spindle.toml"),
        write(tree / "home/project/spindle.toml"),
        write(tree / "other.toml"),
        write(tree / "named.toml"),
    )
    variable = env(tree, SPINDLE_CONFIG=str(other))

    assert find_config(named, cwd=deep, environ=variable) == FoundConfig(named, is_chosen=True)
    assert find_config(None, cwd=deep, environ=variable) == FoundConfig(other, is_chosen=True)
    assert find_config(None, cwd=deep, environ=env(tree)) == FoundConfig(near, is_chosen=False)
    near.unlink()
    assert find_config(None, cwd=deep, environ=env(tree)) == FoundConfig(own, is_chosen=True)
    own.unlink()
    assert find_config(None, cwd=deep, environ=env(tree)) is None


def test_above_the_home_folder_nothing_is_looked_for(tree: Path) -> None:
    write(tree / "spindle.toml")

    assert find_config(None, cwd=tree / "home/project", environ=env(tree)) is None


def test_a_named_file_that_is_not_there_is_an_error(tree: Path) -> None:
    for given, environ in ((tree / "no.toml", env(tree)), (None, env(tree, SPINDLE_CONFIG="no.toml"))):
        with pytest.raises(InvalidConfigError):
            find_config(given, cwd=tree, environ=environ)


def test_a_found_file_that_anybody_may_write_is_not_trusted(tree: Path) -> None:
    path = write(tree / "home/project/spindle.toml")
    path.chmod(0o666)

    with pytest.raises(InvalidConfigError) as caught:
        find_config(None, cwd=path.parent, environ=env(tree))

    assert caught.value.path == str(path)
    assert find_config(path, cwd=tree, environ=env(tree)) == FoundConfig(path, is_chosen=True), "named, it is"


def test_relative_base_folders_do_not_count(tree: Path) -> None:
    environ = env(tree, XDG_CONFIG_HOME="relative", XDG_STATE_HOME=str(tree / "s"))

    assert config_home(environ) == tree / "home/.config/spindle"
    assert state_home(environ) == tree / "s/spindle"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain $HOME %PATH% {x}", "plain $HOME %PATH% {x}"),
        ("${A}", "1"),
        ("<${A}-${A}>", "<1-1>"),
        ("${env:A}", "1"),
        ("${B:-two words}", "two words"),
        ("${B:-}", ""),
        ("${A:-other}", "1"),
    ],
)
def test_only_the_written_form_is_expanded(text: str, expected: str) -> None:
    assert expand(text, {"A": "1"}) == expected


@pytest.mark.parametrize("text", ["${NOT_SET}", "${}", "${A", "${input:token}", "${A!}", "${A}${workspaceFolder:x}"])
def test_an_unset_variable_is_rejected(text: str) -> None:
    with pytest.raises(InvalidConfigError):
        expand(text, {"A": "1"})


def test_the_value_of_a_variable_is_not_expanded_again() -> None:
    assert expand("${A}", {"A": "${B}", "B": "2"}) == "${B}"


def test_a_path_begins_at_its_files_folder() -> None:
    base = Path("/base/conf")

    assert expand_path("a/../b", base, {}) == Path("/base/conf/b")
    assert expand_path("/abs", base, {}) == Path("/abs")
    assert expand_path("${A}/x", base, {"A": "/elsewhere"}) == Path("/elsewhere/x")
    assert expand_path("~/x", base, {}) == Path.home() / "x"


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
def test_a_file_that_is_not_a_server_configuration_is_rejected(tmp_path: Path, content: str) -> None:
    path = written(tmp_path, content)

    with pytest.raises(InvalidConfigError) as caught:
        read_mcp_json(path)

    assert str(caught.value).startswith(str(path))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError):
        read_mcp_json(tmp_path / "none.json")
