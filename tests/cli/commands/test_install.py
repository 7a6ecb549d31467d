"""`spindle discover` and `spindle install`, with clients in a home of the test's own."""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from spindle.cli.clients import CLIENTS, Machine
from spindle.cli.clients.completers import client_names, client_servers
from spindle.cli.main import NOT_FOUND, OK, REFUSED, UNTRUSTED, USAGE, run
from tests.cli.conftest import Command, Place

CURSOR = (
    '{\n  // mine\n  "mcpServers": {\n    "a": {"command": "x", "env": {"A_TOKEN": "hunter2hunter2"}} // keep\n  }\n}\n'
)
pytestmark = pytest.mark.usefixtures("linux")


@pytest.fixture
def linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("CODEX_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cursor(place: Place) -> Path:
    path = place.home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(CURSOR)
    path.chmod(0o640)
    return path


def read_entry(path: Path, *, table: str = "mcpServers") -> dict[str, object]:
    return json.loads(path.read_text())[table]["spindle"]


def test_discover_lists_clients_and_ends_with_what_to_do(spindle: Command, cursor: Path) -> None:
    ran = spindle("discover", "--json")
    (file,) = json.loads(ran.out)["files"]

    assert ran.code == OK
    assert (file["client"], file["path"], file["spindle"]) == ("cursor", str(cursor), False)
    assert file["servers"][0]["variables"] == ["A_TOKEN"]
    assert "hunter2" not in ran.out


def test_discover_prints_the_import_and_the_takeover(
    place: Place, cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["discover"]) == OK
    printed = capsys.readouterr()

    assert "~/.cursor/mcp.json" in printed.out
    assert "spindle add --from cursor:a" in printed.err
    assert '[mcp] import = ["~/.cursor/mcp.json"]' in printed.err
    assert "spindle install cursor" in printed.err
    assert place.home.exists()
    assert cursor.read_text() == CURSOR


def test_install_adds_an_entry_that_starts_this_command_with_this_configuration(
    spindle: Command, place: Place, cursor: Path
) -> None:
    config = place.configure("[tools]\nkit = true\n[profiles.small]\n")

    ran = spindle("install", "cursor", "--yes", "--profile", "small", "--config", str(config))

    lines = cursor.read_text().splitlines()
    assert ran.code == OK
    assert [line for line in CURSOR.splitlines() if line not in lines] == [
        '    "a": {"command": "x", "env": {"A_TOKEN": "hunter2hunter2"}} // keep'
    ], "only a comma is added to the last entry"
    assert '"hunter2hunter2"}}, // keep' in cursor.read_text()
    assert "hunter2" not in ran.out
    assert cursor.stat().st_mode & 0o777 == 0o640
    (backup,) = cursor.parent.glob("*.bak")
    assert backup.read_text() == CURSOR
    assert backup.stat().st_mode & 0o777 == 0o640
    entry = json.loads(cursor.read_text().replace("// mine", "").replace("// keep", ""))["mcpServers"]["spindle"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"] == [
        "--config", str(config), "--state", str(place.state), "serve", "--stdio", "--profile", "small"
    ]  # fmt: skip


def test_install_is_idempotent_and_undo_restores_every_byte(spindle: Command, cursor: Path) -> None:
    assert spindle("install", "cursor", "--yes").code == OK
    once = cursor.read_bytes()
    again = spindle("install", "cursor", "--yes")

    assert (again.code, cursor.read_bytes()) == (OK, once)
    assert len(list(cursor.parent.glob("*.bak"))) == 1
    assert spindle("install", "cursor", "--undo", "--yes").code == OK
    assert cursor.read_text() == CURSOR
    assert spindle("install", "cursor", "--undo", "--yes").code == NOT_FOUND


def test_undo_keeps_what_was_changed_since(spindle: Command, cursor: Path) -> None:
    spindle("install", "cursor", "--yes")
    changed = cursor.read_text().replace('"command": "x"', '"command": "y"')
    cursor.write_text(changed)

    assert spindle("install", "cursor", "--undo", "--yes").code == OK

    assert cursor.read_text() == CURSOR.replace('"command": "x"', '"command": "y"')


def test_undo_after_a_second_install_removes_spindle_altogether(spindle: Command, place: Place, cursor: Path) -> None:
    place.configure("[profiles.small]\n")
    spindle("install", "cursor", "--yes")
    spindle("install", "cursor", "--yes", "--profile", "small")

    assert spindle("install", "cursor", "--undo", "--yes").code == OK
    assert cursor.read_text() == CURSOR


def test_nothing_is_written_without_consent(spindle: Command, cursor: Path) -> None:
    refused = spindle("install", "cursor")
    dry = spindle("install", "cursor", "--dry-run")

    assert (refused.code, dry.code) == (REFUSED, OK)
    assert '+    "spindle": {' in dry.out
    assert cursor.read_text() == CURSOR
    assert list(cursor.parent.iterdir()) == [cursor]


def test_a_link_is_followed_and_stays_a_link(spindle: Command, place: Place, cursor: Path) -> None:
    real = place.home / "dotfiles.json"
    cursor.rename(real)
    cursor.symlink_to(real)

    assert spindle("install", "cursor", "--yes").code == OK
    assert cursor.is_symlink()
    assert "spindle" in real.read_text()


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": []}', "\udcff"])
def test_a_broken_file_is_left_alone(spindle: Command, cursor: Path, text: str) -> None:
    cursor.write_bytes(text.encode("utf-8", "surrogateescape"))

    ran = spindle("install", "cursor", "--yes")

    assert ran.code == USAGE
    assert str(cursor) in ran.err
    assert cursor.read_bytes() == text.encode("utf-8", "surrogateescape")


def test_a_found_configuration_must_be_trusted_before_a_client_uses_it(
    spindle: Command, cursor: Path, clone: Path
) -> None:
    assert spindle("install", "cursor", "--yes").code == UNTRUSTED
    assert cursor.read_text() == CURSOR
    assert clone.exists()


def test_codex_gets_a_table_and_keeps_its_comments(spindle: Command, place: Place) -> None:
    path = place.home / ".codex" / "config.toml"
    path.parent.mkdir()
    before = '# mine\nmodel = "o"  # keep\n\n[mcp_servers.a]\ncommand = "x"\n\n# about profiles\n[profiles.p]\nx = 1\n'
    path.write_text(before)

    url = "http://127.0.0.1:8765/mcp"
    assert spindle("install", "codex", "--yes", "--http", url, "--token-env", "SPINDLE_TOKEN").code == OK

    assert tomllib.loads(path.read_text())["mcp_servers"]["spindle"] == {
        "url": url, "bearer_token_env_var": "SPINDLE_TOKEN"
    }  # fmt: skip
    assert "\n# about profiles\n[profiles.p]" in path.read_text()
    assert spindle("install", "codex", "--undo", "--yes").code == OK
    assert path.read_text() == before


@pytest.mark.parametrize("client", [name for name, each in CLIENTS.items() if each.name != "continue"])
def test_every_client_can_be_installed_found_and_undone(spindle: Command, place: Place, client: str) -> None:
    location = CLIENTS[client].find_location(Machine.here(), "user")
    assert location is not None
    path = Machine.here().expand(location.path)
    path.parent.mkdir(parents=True, exist_ok=True)

    assert spindle("install", client, "--yes").code == OK
    found = json.loads(spindle("discover", client, "--json").out)["files"]
    assert [file["spindle"] for file in found if file["path"] == str(path)][:1] == [True]
    assert path.stat().st_mode & 0o777 == 0o600
    assert spindle("install", client, "--undo", "--yes").code == OK
    assert not path.exists()
    assert place.home in path.parents


@pytest.mark.parametrize("client", [name for name, each in CLIENTS.items() if len(each.locations) > 1])
def test_a_project_file_is_created_in_the_working_folder(spindle: Command, place: Place, client: str) -> None:
    location = CLIENTS[client].find_location(Machine.here(), "project")
    ran = spindle("install", client, "--project", "--yes")

    assert ran.code == (USAGE if location is None else OK)
    if location is not None:
        assert "spindle" in Machine.here().expand(location.path).read_text()
        assert place.work in Machine.here().expand(location.path).parents


@pytest.mark.parametrize(
    "words",
    [
        ("nope",), ("cursor", "--http", "ftp://x"), ("cursor", "--http", "http://x", "--profile", "p"),
        ("claude-desktop", "--http", "http://x"), ("cursor", "--token-env", "A"), ("cursor", "--name", "a b"),
        ("zed", "--http", "http://x", "--token-env", "A"), ("cursor", "--http", "http://x", "--token-env", "A B"),
        ("windsurf",), ("continue",), ("cursor", "--profile", "p"),
    ],
)  # fmt: skip
def test_wrong_usage_changes_nothing(spindle: Command, place: Place, cursor: Path, words: tuple[str, ...]) -> None:
    for folder in (".config/Claude", ".config/zed"):
        (place.home / folder).mkdir(parents=True)

    assert spindle("install", *words, "--yes").code in {USAGE, NOT_FOUND}
    assert cursor.read_text() == CURSOR


def test_the_shell_completes_clients_and_their_servers(cursor: Path) -> None:
    context: Any = None

    assert client_names(context)["cursor"] == "Cursor"
    assert client_servers(context) == ["cursor:a"]
    assert cursor.exists()


def test_the_completion_script_has_the_new_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "bash"]) == OK

    script = capsys.readouterr().out
    assert [
        word for word in ("discover", "install", "--undo", "--token-env", "--env-secret") if word not in script
    ] == []
