"""`spindle add`: editing `spindle.toml`."""

import json
import os
import tomllib
from pathlib import Path

import pytest

from spindle.cli import load_config
from spindle.cli.main import NOT_FOUND, OK, UNTRUSTED, USAGE, run
from tests.cli.conftest import Place

TEXT = """# mine
[tools]
kit = true  # yes

[mcp.servers.a]
command = "x"  # first

# about reach
[reach]
root = "."
"""


@pytest.fixture(autouse=True)
def state(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPINDLE_STATE", str(place.state))


def own(place: Place) -> Path:
    return place.home / ".config" / "spindle" / "spindle.toml"


def servers(path: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads(path.read_text())["mcp"]["servers"]


def test_a_command_and_a_url_are_added_and_comments_stay(place: Place) -> None:
    path = place.configure(TEXT)

    assert (
        run(["add", "b", "--env", "K=v=w", "--env-secret", "S=name", "--trusted", "--", "npx", "-y", "p", "--json"])
        == OK
    )
    assert run(["add", "c", "https://c.example/mcp", "--header-secret", "Authorization=c_token"]) == OK

    assert servers(path) == {
        "a": {"command": "x"},
        "b": {
            "command": "npx", "args": ["-y", "p", "--json"], "env": {"K": "v=w"}, "env_secrets": {"S": "name"},
            "trusted": True,
        },
        "c": {"url": "https://c.example/mcp", "header_secrets": {"Authorization": "c_token"}},
    }  # fmt: skip
    left = iter(path.read_text().splitlines())
    assert all(line in left for line in TEXT.splitlines())
    assert "\n# about reach\n[reach]" in path.read_text()


def test_without_a_file_the_users_own_is_created_and_keeps_the_kit(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["add", "b", "--", "x"]) == OK

    assert str(own(place)) in capsys.readouterr().err
    assert tomllib.loads(own(place).read_text()) == {
        "tools": {"kit": True}, "mcp": {"servers": {"b": {"command": "x"}}}
    }  # fmt: skip
    assert own(place).stat().st_mode & 0o077 == 0
    assert run(["trust", "--revoke"]) in {OK, NOT_FOUND}


def test_a_file_created_in_the_working_folder_is_trusted(place: Place) -> None:
    assert run(["add", "b", "--project", "--", "x"]) == OK

    assert (place.work / "spindle.toml").is_file()
    assert run(["journal", "list"]) == OK


def test_trust_is_renewed_only_if_it_was_there(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path = place.work / "spindle.toml"
    path.write_text("[tools]\nkit = true\n")
    assert run(["add", "b", "--", "x"]) == OK
    assert "spindle trust" in capsys.readouterr().err
    assert run(["journal", "list"]) == UNTRUSTED

    assert run(["trust", "--yes"]) == OK
    assert run(["add", "c", "--", "x"]) == OK
    assert run(["journal", "list"]) == OK

    path.write_text(path.read_text() + "# a change by another program\n")
    assert run(["add", "d", "--", "x"]) == OK
    assert run(["journal", "list"]) == UNTRUSTED


def test_changed_local_code_is_not_accepted_by_an_edit(clone: Path, place: Place) -> None:
    assert run(["trust", "--yes"]) == OK
    (clone / "helper.py").write_text("WORD = 'changed'\n")

    assert run(["add", "b", "--", "x"]) == OK
    assert run(["journal", "list"]) == UNTRUSTED
    assert place.work == clone


@pytest.mark.parametrize(
    "words",
    [
        ("a", "--", "y"),
        ("b",),
        ("b", "--env", "TOKEN=hunter2hunter2", "--", "x"),
        ("b", "--header", "Authorization=Bearer hunter2hunter2", "https://b.example"),
        ("b", "--", "x", "--api-key", "hunter2hunter2"),
        ("b", "--", "x", "--api-key=hunter2hunter2"),
        ("b", "--", "x", "ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ("b", "https://b.example/?token=hunter2hunter2"),
        ("b", "https://u:hunter2hunter2@b.example/"),
        ("b", "--env", "hunter2hunter2", "--", "x"),
        ("b__c", "--", "x"),
        ("b c", "--", "x"),
        ("b", "--header-secret", "A=b", "--", "x"),
        ("b", "--env-secret", "A=b c", "--", "x"),
        ("b", "--env", "A=${UNSET_VARIABLE_OF_TEST}", "--", "x"),
        ("--from", "cursor:none"),
        ("--from", "nope:none"),
        ("none", "--remove"),
        (),
    ],
)
def test_what_would_not_load_or_holds_a_secret_is_refused(
    place: Place, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    path = place.configure(TEXT)

    assert run(["add", *words]) in {USAGE, NOT_FOUND}

    printed = capsys.readouterr()
    assert "hunter2" not in printed.out + printed.err
    assert path.read_text() == TEXT
    assert os.listdir(place.work) == ["spindle.toml"]  # noqa: PTH208


def test_a_server_is_replaced_by_force_and_removed(place: Place) -> None:
    path = place.configure(TEXT)

    assert run(["add", "b", "--", "x"]) == OK
    assert run(["add", "b", "--force", "--", "y"]) == OK
    assert servers(path)["b"] == {"command": "y"}
    assert run(["add", "b", "--remove"]) == OK
    assert path.read_text() == TEXT


def test_a_dry_run_writes_nothing(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path = place.configure(TEXT)

    assert run(["add", "b", "--dry-run", "--", "x"]) == OK
    assert "+[mcp.servers.b]" in capsys.readouterr().out
    assert path.read_text() == TEXT


def test_a_server_is_taken_over_from_a_client_without_its_secrets(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    path = place.configure("")
    file = place.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    entry = {"command": "x", "args": ["1"], "env": {"A": "1", "B_TOKEN": "hunter2hunter2"}}
    file.write_text(json.dumps({"mcpServers": {"my server": entry, "spindle": {"command": "spindle"}}}))

    assert run(["add", "--from", "cursor:my server"]) == USAGE
    assert "--env-secret B_TOKEN=NAME" in capsys.readouterr().err
    assert run(["add", "--from", "cursor:spindle"]) == USAGE
    assert run(["add", "--from", "cursor:my server", "--env-secret", "B_TOKEN=b"]) == OK
    assert servers(path) == {
        "my-server": {"command": "x", "args": ["1"], "env": {"A": "1"}, "env_secrets": {"B_TOKEN": "b"}}
    }


def test_a_file_that_cannot_be_loaded_for_another_reason_can_still_be_edited(place: Place) -> None:
    path = place.configure('[mcp.servers.a]\ncommand = "${UNSET_VARIABLE_OF_TEST}"\n')

    assert run(["add", "b", "--", "x"]) == OK
    assert "b" in servers(path)


def test_an_entry_of_an_imported_file_that_starts_spindle_is_skipped(place: Place) -> None:
    (place.work / "mcp.json").write_text(
        '{"mcpServers": {"spindle": {"command": "/bin/spindle"}, "b": {"command": "x"}}}'
    )
    config = load_config(place.configure('[mcp]\nimport = ["mcp.json"]\n'))

    assert list(config.servers) == ["b"]
    assert "Spindle itself" in " ".join(config.notes)


@pytest.mark.parametrize("url", ['http://a/"\nx = 1', "https://a.example/\x1b[31m", "https://a.example/b c"])
def test_a_url_that_no_server_can_have_is_not_written(url: str, place: Place) -> None:
    path = place.configure(TEXT)

    assert run(["add", "b", url]) == USAGE
    assert path.read_text() == TEXT
