"""Finding and reading the files of MCP clients."""

import json
import os
from pathlib import Path

import pytest

from spindle.cli.clients import CLIENTS, Machine, find_files
from spindle.cli.clients.catalogue import System
from spindle.cli.clients.discovery import MAX_SERVERS

TOKEN = "ghp_" + "a1" * 18
KEY = "0123456789abcdef0123456789abcdef"


def machine(home: Path, system: System = "linux", **environ: str) -> Machine:
    return Machine(system=system, home=home, environ=environ, project=home / "project")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("system", "client", "expected"),
    [
        ("linux", "claude-desktop", ".config/Claude/claude_desktop_config.json"),
        ("darwin", "claude-desktop", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("windows", "claude-desktop", "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("darwin", "vscode", "Library/Application Support/Code/User/mcp.json"),
        ("windows", "zed", "AppData/Roaming/Zed/settings.json"),
        ("darwin", "zed", ".config/zed/settings.json"),
        ("windows", "codex", ".codex/config.toml"),
        ("linux", "windsurf", ".codeium/windsurf/mcp_config.json"),
    ],
)
def test_each_system_has_its_own_paths(tmp_path: Path, system: System, client: str, expected: str) -> None:
    where = machine(tmp_path, system)

    location = CLIENTS[client].find_location(where, "user")

    assert location is not None
    assert where.expand(location.path) == tmp_path / expected


def test_variables_move_the_folders_that_they_name(tmp_path: Path) -> None:
    where = machine(
        tmp_path, CODEX_HOME=str(tmp_path / "c"), XDG_CONFIG_HOME=str(tmp_path / "x"), COPILOT_HOME="relative"
    )

    assert where.expand("{codex}/config.toml") == tmp_path / "c" / "config.toml"
    assert where.expand("{xdg}/zed/settings.json") == tmp_path / "x" / "zed" / "settings.json"
    assert where.expand("{copilot}/mcp-config.json") == tmp_path / ".copilot" / "mcp-config.json"


def test_every_shape_of_a_server_is_read(tmp_path: Path) -> None:
    write(tmp_path / ".cursor/mcp.json", '{ // mine\n"mcpServers": {"a": {"command": "npx", "args": ["-y", "x"],},}}')
    write(
        tmp_path / ".config/Code/User/mcp.json", '{"servers": {"b": {"type": "http", "url": "https://b.example/mcp"}}}'
    )
    write(tmp_path / ".config/Code/User/settings.json", '{"mcp": {"servers": {"old": {"command": "o"}}}, "x": 1}')
    write(
        tmp_path / ".config/zed/settings.json", '{"context_servers": {"c": {"command": {"path": "c", "args": ["1"]}}}}'
    )
    write(tmp_path / ".codex/config.toml", '[mcp_servers.d]\nurl = "https://d"\nbearer_token_env_var = "D"\n')
    write(tmp_path / ".gemini/settings.json", '{"mcpServers": {"e": {"httpUrl": "https://e"}}}')
    write(
        tmp_path / ".config/opencode/opencode.json",
        '{"mcp": {"f": {"type": "local", "command": ["f", "1"], "enabled": false}}}',
    )
    write(tmp_path / ".claude.json", '{"mcpServers": {}, "projects": {"/p": {"mcpServers": {"g": {"command": "g"}}}}}')
    write(tmp_path / ".continue/config.yaml", "mcpServers:\n  - name: h\n    command: h\n")
    write(tmp_path / "project/.mcp.json", '{"mcpServers": {"i": {"command": "spindle", "args": ["serve", "--stdio"]}}}')

    found = find_files(machine(tmp_path))

    servers = {each.name: each for file in found for each in file.servers}
    assert {name: each.target for name, each in servers.items()} == {
        "a": "npx -y x", "b": "https://b.example/mcp", "old": "o", "c": "c 1", "d": "https://d", "e": "https://e",
        "f": "f 1", "g": "g", "h": "h", "i": "spindle serve --stdio",
    }  # fmt: skip
    assert [file.problem for file in found] == [None] * len(found)
    assert servers["d"].variables == ("Authorization",)
    assert servers["g"].project == "/p"
    assert not servers["f"].is_enabled
    assert [name for name, each in servers.items() if each.is_spindle] == ["i"]


def test_no_secret_is_shown(tmp_path: Path) -> None:
    entries = {
        "args": {
            "command": "x",
            "args": ["--api-key", "hunter2hunter2", "-H", "Authorization: Bearer abcdefghijk", KEY],
        },
        "token": {"command": "x", "args": [TOKEN, f"TOKEN={KEY}", f"--token={KEY}"], "env": {"A_TOKEN": TOKEN}},
        "url": {"url": f"https://me:hunter2hunter2@h.example/{KEY}/mcp?key=hunter2hunter2#hunter2hunter2"},
        "headers": {"url": "https://h.example", "headers": {"Authorization": f"Bearer {TOKEN}"}},
    }
    write(tmp_path / ".cursor/mcp.json", json.dumps({"mcpServers": entries}))

    (file,) = find_files(machine(tmp_path))

    shown = " ".join(f"{each.target} {each.variables}" for each in file.servers)
    assert not [secret for secret in (TOKEN, KEY, "hunter2hunter2", "abcdefghijk") if secret in shown]
    assert "A_TOKEN" in shown
    assert "h.example" in shown


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[" * 100_000,
        '{"a": ' * 100_000,
        "\x00\x01",
        '{"mcpServers": ' + "1" * 5_000 + "}",
        '{"mcpServers": {"a": "\\ud8"}}',
    ],
)
def test_a_broken_file_is_reported_and_the_others_are_read(tmp_path: Path, text: str) -> None:
    write(tmp_path / ".cursor/mcp.json", text)
    write(tmp_path / ".gemini/settings.json", '{"mcpServers": {"e": {"httpUrl": "https://e"}}}')

    broken, whole = find_files(machine(tmp_path))

    assert broken.problem is not None
    assert [each.name for each in whole.servers] == ["e"]


def test_comments_are_an_error_for_a_client_that_does_not_accept_them(tmp_path: Path) -> None:
    write(tmp_path / ".lmstudio/mcp.json", '{"mcpServers": {} /* x */}')

    (file,) = find_files(machine(tmp_path))

    assert file.problem is not None


def test_odd_files_are_reported_without_waiting_for_them(tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    os.mkfifo(tmp_path / ".cursor/mcp.json")
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini/settings.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / ".codeium/windsurf/mcp_config.json").mkdir(parents=True)
    (tmp_path / ".lmstudio").mkdir()
    (tmp_path / ".lmstudio/mcp.json").write_bytes(b"\xff\xfe{")

    found = find_files(machine(tmp_path))

    assert len(found) == 4
    assert all(each.problem for each in found)


ODD_ENTRIES = """
null
1
[]
{"command": {}}
{"command": []}
{"url": 1}
{"command": "x", "args": {"a": 1}}
{"env": []}
{"command": "x", "args": [[[]], null, 100000000000000000000000000000000], "env": {"A": {}}}
{"disabled": true}
"""


@pytest.mark.parametrize("entry", ODD_ENTRIES.split("\n")[1:-1])
def test_an_odd_entry_is_listed_as_it_is(tmp_path: Path, entry: str) -> None:
    write(tmp_path / ".cursor/mcp.json", f'{{"mcpServers": {{"a": {entry}}}}}')

    (file,) = find_files(machine(tmp_path))

    assert [each.name for each in file.servers] == ["a"]


def test_a_file_with_very_many_servers_is_cut_and_says_so(tmp_path: Path) -> None:
    entries = {f"s{number}": {"command": "x" * 100} for number in range(MAX_SERVERS + 5)}
    write(tmp_path / ".cursor/mcp.json", json.dumps({"mcpServers": entries}))

    (file,) = find_files(machine(tmp_path))

    assert len(file.servers) == MAX_SERVERS
    assert file.problem is not None


def test_a_yaml_file_that_expands_to_gigabytes_is_harmless(tmp_path: Path) -> None:
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12))
    bomb = f"l0: &l0 [x]\n{levels}\nmcpServers:\n  - name: *l11\n    command: x\n    args: *l11\n    env: {{A: *l11}}\n"
    write(tmp_path / ".continue/config.yaml", bomb)

    (file,) = find_files(machine(tmp_path))

    assert [each.name for each in file.servers] == ["0"]
