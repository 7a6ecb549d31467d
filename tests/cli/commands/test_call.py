"""`spindle call`: outcomes, exit codes and shapes."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from spindle.cli.main import ENDED, FAILED, NOT_FOUND, OK, REFUSED, USAGE
from tests.cli.conftest import Command, Place

MODULE = """
import anyio
from spindle import tool, Err, Media, Ok

@tool(requires_approval=True)
def pay(cents: int) -> str:
    "Pay."
    return f"paid {cents}"

@tool
def fail() -> str:
    "Fail."
    raise RuntimeError("inner words")

@tool
async def hang() -> str:
    "Hang."
    await anyio.sleep_forever()

@tool
def log(lines: int = 30_000) -> str:
    "A log."
    return "\\n".join(f"line {number}" for number in range(lines))

@tool
def picture() -> Ok:
    "A picture."
    image = Media.tool_generated(b"\\x89PNG", kind="image", mime_type="image/png", filename="p.png")
    return Ok("see", structured={"a": 1}, media=(image,))

@tool
def empty() -> None:
    "Nothing."

tools = [pay, fail, hang, log, picture, empty]
"""
KEYS = {
    "tool_call_id", "tool", "ok", "code", "error", "field", "retryable", "ticket", "reason", "value",
    "model_text", "structured", "media",
    "artifact", "trusted", "cost_usd", "duration_ms", "attempts", "checksum",
}  # fmt: skip


@pytest.fixture
def shop(place: Place, module: Callable[[str, str], None]) -> Place:
    module("shop_tools", MODULE)
    place.configure(
        '[tools]\nkit = ["arithmetic", "files"]\nmodules = ["shop_tools:tools"]\npython_path = ["."]\n'
        "[profiles.none]\nallowed_tools = []\n"
    )
    return place


def test_the_outcome_and_what_the_model_sees_are_shown(spindle: Command) -> None:
    ran = spindle("call", "calculate", "expression=6*7")

    first, _, fence, value, end = ran.out.splitlines()
    assert ran.code == OK
    assert first.startswith("calculate ok in ")
    assert fence.startswith("<trusted_content_")
    assert value == "42"
    assert end.startswith("</trusted_content_")
    assert ran.err == ""


def test_json_in_and_json_out(spindle: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = spindle("call", "calculate", "--json", '{"expression": "1+1"}', "-o", "json")
    monkeypatch.setattr("sys.stdin", io.StringIO('{"expression": "2+2"}'))
    from_stdin = spindle("call", "calculate", "--json", "-", "--output", "raw")
    bare = spindle("call", "calculate", "expression=3+3", "--json")

    assert json.loads(answered.out).keys() == KEYS
    assert json.loads(answered.out)["value"] == "2"
    assert from_stdin.out == "4\n"
    assert json.loads(bare.out)["value"] == "6"


@pytest.mark.parametrize(
    ("words", "code", "err_code"),
    [
        (["call", "calculate", "expresion=1"], USAGE, "input_invalid"),
        (["call", "fail"], FAILED, "execution_failed"),
        (["call", "pay", "cents=1"], REFUSED, "needs_approval"),
        (["call", "pay", "cents=1", "--profile", "none"], REFUSED, "not_available"),
        (["call", "hang", "--timeout", "0.05"], ENDED, "timed_out"),
        (["call", "pay", "cents=1", "--yes"], OK, None),
        (["call", "pay", "cents=1", "-y", "--dry-run"], OK, None),
    ],
)
def test_exit_codes_mean_something(
    spindle: Command, shop: Place, words: list[str], code: int, err_code: str | None
) -> None:
    ran = spindle(*words, "--json")

    assert ran.code == code
    assert json.loads(ran.out)["code"] == err_code


@pytest.mark.parametrize(
    "words",
    [
        ["call"],
        ["call", "calculate", "noequals"],
        ["call", "calculate", "--json", "[1]"],
        ["call", "calculate", "--json", "{bad"],
        ["call", "calculate", "expression=1", "--timeout", "-1"],
        ["call", "calculate", "expression=1", "--timeout", "nan"],
        ["call", "calculate", "expression=1", "--output", "xml"],
        ["call", "calculate", "expression=1", "--profile", "nobody"],
        ["call", "calculate", "expression=1", "--no-such-option"],
        ["call", "calculate", "expression=1", "--config", "missing.toml"],
    ],
)
def test_wrong_usage_is_one_line_and_no_output(spindle: Command, words: list[str]) -> None:
    ran = spindle(*words)

    assert (ran.code, ran.out) == (USAGE, "")
    assert ran.err.startswith("spindle: ")
    assert len(ran.err.splitlines()) <= 2
    assert "Traceback" not in ran.err


def test_a_large_result_is_kept_and_can_be_read_back(spindle: Command, shop: Place) -> None:
    shown = spindle("call", "log")
    reported = json.loads(spindle("call", "log", "lines=40000", "--json").out)
    raw = spindle("call", "log", "-o", "raw")

    short = next(line.split()[-1] for line in shown.out.splitlines() if line.startswith("  spindle spool head "))
    assert spindle("spool", "head", short, "-n", "2").out == "line 0\nline 1\n"
    assert reported["artifact"]["lines"] == 40_000
    assert spindle("spool", "tail", reported["artifact"]["id"], "-n", "1").out == "line 39999\n"
    assert raw.out.splitlines()[-1] == "line 29999"
    assert len(raw.out.splitlines()) == 30_000


def test_media_and_structured_values_are_printed(spindle: Command, shop: Place) -> None:
    reported = json.loads(spindle("call", "picture", "--json").out)
    shown = spindle("call", "picture")

    assert reported["structured"] == {"a": 1}
    assert reported["media"][0]["mime_type"] == "image/png"
    assert "media: image image/png p.png" in shown.out


def test_a_raw_error_goes_to_stderr(spindle: Command, shop: Place) -> None:
    ran = spindle("call", "fail", "-o", "raw")

    assert (ran.code, ran.out) == (FAILED, "")
    assert "execution_failed" in ran.err
    assert "inner words" not in ran.err


def test_a_result_of_nothing_is_nothing(spindle: Command, shop: Place) -> None:
    assert json.loads(spindle("call", "empty", "--json").out)["value"] == ""


def test_a_dry_run_changes_nothing(spindle: Command, shop: Place) -> None:
    ran = spindle("call", "write_file", "path=x.txt", "content=hello", "--dry-run")

    assert ran.code == OK
    assert "[dry-run]" in ran.out
    assert not list(shop.state.rglob("x.txt"))


def test_an_argument_may_be_a_files_content(spindle: Command, shop: Place, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("from a file\n")

    spindle("call", "write_file", "path=x.txt", f"content=@{tmp_path / 'text'}")

    [written] = shop.state.rglob("x.txt")
    assert written.read_text() == "from a file\n"


def test_options_may_stand_before_the_command(spindle: Command, place: Place) -> None:
    place.configure("[limits]\nbudget_chars = 0\n")

    assert spindle("--config", "spindle.toml", "call", "calculate", "expression=1").code == USAGE
    place.configure("")
    assert spindle("--config=spindle.toml", "call", "calculate", "expression=1").code == NOT_FOUND
    assert spindle("--config", "spindle.toml", "spool", "list").code == OK


def test_a_spool_that_fails_costs_only_the_rest_of_a_result(spindle: Command, shop: Place) -> None:
    shop.configure(f"{(shop.work / 'spindle.toml').read_text()}[spool]\npath = 'blocked/spool'\n")
    (shop.work / "blocked").touch()

    small = spindle("call", "calculate", "expression=6*7")
    large = spindle("call", "log")
    checked = spindle("doctor", "--json")

    assert (small.code, small.err) == (OK, "")
    assert large.code == OK
    assert "line 0" in large.out
    assert "could not be kept" in large.err
    assert [each["status"] for each in json.loads(checked.out)["checks"] if each["name"] == "spool"] == ["failed"]


def test_a_tool_of_the_kit_that_the_configuration_leaves_out_is_named_as_such(place: Place, spindle: Command) -> None:
    config = place.work / "other.toml"
    config.write_text("")

    for command in ("call", "show"):
        ran = spindle(command, "calculate", "--config", str(config))
        assert ran.code == NOT_FOUND
        assert "--kit" in ran.err
