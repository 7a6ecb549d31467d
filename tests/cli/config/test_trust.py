"""A configuration that was found, not chosen, does nothing until the user has accepted it."""

import json
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.cli.conftest import MODULE, Command, Place, compile_unchecked

UNTRUSTED = 6


def has_run(clone: Path) -> list[str]:
    return [name for name in ("IMPORTED", "STARTED") if (clone / name).exists()]


COMMANDS = [
    ("list",),
    ("show", "hello"),
    ("call", "hello"),
    ("doctor",),
    ("serve", "--stdio"),
    ("spool", "list"),
    ("journal", "list"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_uses_a_found_configuration_before_it_is_trusted(
    clone: Path, spindle: Command, words: tuple[str, ...]
) -> None:
    ran = spindle(*words)

    assert ran.code == UNTRUSTED
    assert has_run(clone) == []
    assert ran.out == ""
    problem, hint = ran.err.splitlines()
    assert str(clone / "spindle.toml") in problem
    assert "spindle trust" in hint
    assert "canary-value" not in ran.err


def test_after_trust_it_is_used_until_it_changes(clone: Path, spindle: Command) -> None:
    shown = spindle("trust", "--yes")
    assert shown.code == 0
    for text in ("server.py", "CANARY_VARIABLE", "greeting:hello", "helper.py"):
        assert text in shown.out
    assert "canary-value" not in shown.out + shown.err
    assert has_run(clone) == [], "looking runs nothing"

    assert "hello" in spindle("call", "hello").out
    assert has_run(clone) == ["IMPORTED"]

    config = clone / "spindle.toml"
    config.write_text(config.read_text() + "\n[limits]\nconcurrency = 3\n")
    changed = spindle("list")
    assert (changed.code, "spindle.toml changed" in changed.err) == (UNTRUSTED, True)


@pytest.mark.parametrize("name", ["greeting.py", "helper.py", "server.py"])
def test_a_change_in_the_local_code_asks_again(clone: Path, spindle: Command, name: str) -> None:
    spindle("trust", "--yes")

    with (clone / name).open("a") as opened:
        opened.write("\nx = 1\n")

    changed = spindle("list")
    assert (changed.code, f"{name} changed" in changed.err) == (UNTRUSTED, True)
    assert has_run(clone) == []


def test_a_new_file_that_takes_the_place_of_an_imported_module_asks_again(clone: Path, spindle: Command) -> None:
    spindle("trust", "--yes")

    (clone / "pathlib.py").write_text("evil = True\n")

    assert spindle("list").code == UNTRUSTED


def test_the_servers_of_an_imported_file_are_shown_and_watched(clone: Path, spindle: Command) -> None:
    servers = clone / "mcp.json"
    servers.write_text(json.dumps({"mcpServers": {"late": {"command": "late-server", "args": ["${SECRET_NAME}"]}}}))
    (clone / "spindle.toml").write_text('[mcp]\nimport = ["mcp.json"]\n')
    shown = spindle("trust", "--yes").out
    assert "late-server" in shown
    assert "SECRET_NAME" in shown

    servers.write_text(json.dumps({"mcpServers": {"late": {"command": "other"}}}))

    assert spindle("list").code == UNTRUSTED


def test_a_named_configuration_and_the_users_own_are_chosen(clone: Path, place: Place, spindle: Command) -> None:
    text = '[tools]\nkit = ["clock"]\n'
    (clone / "spindle.toml").write_text(text)
    assert spindle("list", "--config", str(clone / "spindle.toml")).code == 0

    (clone / "spindle.toml").unlink()
    own = place.home / ".config" / "spindle"
    own.mkdir(parents=True)
    (own / "spindle.toml").write_text(text)
    assert spindle("list").code == 0


def test_a_link_to_a_trusted_file_is_not_trusted_elsewhere(
    clone: Path, place: Place, spindle: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    spindle("trust", "--yes")
    other = place.work.parent / "other"
    other.mkdir()
    (other / "spindle.toml").symlink_to(clone / "spindle.toml")
    (other / "greeting.py").write_text(MODULE)
    monkeypatch.chdir(other)

    assert spindle("list").code == UNTRUSTED


def test_trust_is_revoked(clone: Path, spindle: Command) -> None:
    spindle("trust", "--yes")

    assert spindle("trust", "--revoke").code == 0

    assert spindle("list").code == UNTRUSTED


def test_without_a_terminal_nothing_is_trusted_unasked(clone: Path, spindle: Command) -> None:
    ran = spindle("trust")

    assert ran.code == 4
    assert "--yes" in ran.err
    assert spindle("list").code == UNTRUSTED
    assert has_run(clone) == []


def test_the_configuration_does_not_decide_where_trust_is_kept(clone: Path, place: Place, spindle: Command) -> None:
    """A clone could bring a state folder in which it is trusted."""
    spindle("trust", "--yes")
    store = next(place.work.parent.joinpath("xdg").rglob("trusted.json"))
    bait = clone / "state"
    bait.mkdir()
    (bait / "trusted.json").write_bytes(store.read_bytes())
    store.unlink()
    config = clone / "spindle.toml"
    config.write_text('[spindle]\nstate = "state"\n' + config.read_text())

    assert spindle("list").code == UNTRUSTED


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_store_that_others_could_have_written_is_not_believed(clone: Path, place: Place, spindle: Command) -> None:
    spindle("trust", "--yes")
    store = next(place.work.parent.joinpath("xdg").rglob("trusted.json"))
    assert store.stat().st_mode & 0o077 == 0

    store.chmod(0o666)

    assert spindle("list").code == UNTRUSTED


def test_hidden_characters_in_a_configuration_are_shown_when_it_is_to_be_trusted(clone: Path, spindle: Command) -> None:
    (clone / "spindle.toml").write_text('[mcp.servers.a]\ncommand = "run"\nargs = ["\\u001b[2K\\u202eevil"]\n')

    shown = spindle("trust", "--yes").out

    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "evil" in shown


def test_the_document_for_programs_lists_every_effect(clone: Path, spindle: Command) -> None:
    document = json.loads(spindle("trust", "--yes", "--json").out)

    assert document["trusted"] is True
    assert {"does": "imports", "by": "tools.modules", "what": "greeting:hello"} in document["effects"]


def test_the_sandbox_of_a_server_is_shown_when_it_is_to_be_trusted(place: Place, spindle: Command) -> None:
    (place.work / "spindle.toml").write_text(
        '[mcp.servers.a]\ncommand = "x"\nsandbox = "none"\n'
        '[mcp.servers.b]\ncommand = "x"\nread = ["docs"]\nwrite = ["out"]\nnetwork = false\n'
    )

    effects = json.loads(spindle("trust", "--yes", "--json").out)["effects"]

    shown = {(each["does"], each["by"]): each["what"] for each in effects}
    assert "WITHOUT A SANDBOX" in shown["runs", "mcp.servers.a.sandbox"]
    assert shown["reads", "mcp.servers.b.read"] == "docs"
    assert shown["writes to", "mcp.servers.b.write"] == "out"
    assert shown["denies", "mcp.servers.b.network"] == "the network"


def test_completion_does_not_import_the_modules_of_an_untrusted_configuration(clone: Path, spindle: Command) -> None:
    spindle("__complete", "call", "h")

    assert has_run(clone) == []


def test_unchecked_bytecode_that_appears_asks_again(clone: Path, spindle: Command) -> None:
    spindle("trust", "--yes")

    compile_unchecked(clone / "greeting.py", "WORD = 1\n")

    assert spindle("list").code == UNTRUSTED


def test_an_extension_module_that_takes_the_place_of_source_asks_again(clone: Path, spindle: Command) -> None:
    spindle("trust", "--yes")

    (clone / f"greeting{EXTENSION_SUFFIXES[0]}").write_bytes(b"any")

    assert spindle("list").code == UNTRUSTED


def test_every_module_of_a_package_is_watched(clone: Path, spindle: Command) -> None:
    (clone / "helper.py").unlink()
    (clone / "helper" / "plugins").mkdir(parents=True)
    (clone / "helper" / "__init__.py").write_text("from helper.plugins import *\nWORD = second.WORD\n")
    (clone / "helper" / "plugins" / "__init__.py").write_text("__all__ = ['second']\n")
    (clone / "helper" / "plugins" / "second.py").write_text("WORD = 'hello'\n")
    for name in [name for name in sys.modules if name.startswith("helper.")]:
        del sys.modules[name]
    spindle("trust", "--yes")
    assert spindle("call", "hello").code == 0

    (clone / "helper" / "plugins" / "second.py").write_text("WORD = 'other'\n")

    assert spindle("list").code == UNTRUSTED


def test_an_archive_of_modules_is_watched(clone: Path, spindle: Command) -> None:
    (clone / "helper.py").unlink()
    with ZipFile(clone / "library.zip", "w") as archive:
        archive.writestr("helper.py", "WORD = 'hello'\n")
    config = clone / "spindle.toml"
    config.write_text(config.read_text().replace('["."]', '[".", "library.zip"]'))
    spindle("trust", "--yes")
    assert "hello" in spindle("call", "hello").out

    with ZipFile(clone / "library.zip", "w") as archive:
        archive.writestr("helper.py", "WORD = 'other'\n")

    assert spindle("list").code == UNTRUSTED


@pytest.mark.parametrize(
    "entry",
    [
        'command = "python"\nargs = ["-mlate"]',
        'command = "python"\nargs = ["-um", "late"]',
        'command = "sh"\nargs = ["-c", "exec ./late.py --flag"]',
        'command = "python"\nargs = ["-m", "late"]\nenv = { PYTHONPATH = "lib" }',
        'command = "node"\nargs = ["x.js"]\nenv = { NODE_OPTIONS = "--require ./late.py" }',
    ],
)
def test_code_that_a_server_names_in_another_way_is_watched(clone: Path, spindle: Command, entry: str) -> None:
    code = clone / ("lib" if "PYTHONPATH" in entry else ".") / "late.py"
    code.parent.mkdir(exist_ok=True)
    code.write_text("x = 1\n")
    (clone / "spindle.toml").write_text(f'[mcp.servers.sly]\n{entry}\ncwd = "."\n')
    assert "late.py" in spindle("trust", "--yes").out

    code.write_text("x = 2\n")

    assert spindle("list").code == UNTRUSTED


def test_passwords_of_urls_are_not_shown(place: Place, spindle: Command) -> None:
    (place.work / "spindle.toml").write_text("""
[journal]
url = "postgresql://bob:hunter22@db.example/calls"
[mcp.servers.shop]
url = "https://bob:hunter22@shop.example/mcp"
""")

    for words in (("trust",), ("trust", "--yes", "--json")):
        ran = spindle(*words)
        assert "db.example" in ran.out
        assert "shop.example" in ran.out
        assert "hunter22" not in ran.out + ran.err


def test_a_module_that_is_nested_too_deeply_to_be_parsed_is_watched(clone: Path, spindle: Command) -> None:
    (clone / "helper.py").write_text("-" * 100_000 + "1\n")

    assert spindle("trust", "--yes").code == 0

    (clone / "helper.py").write_text("-" * 100_001 + "1\n")
    assert spindle("list").code == UNTRUSTED
