"""One output for people, pipes and programs."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spindle.cli.output import Branch, Output, show_progress

ROWS = [["read_file", "kit files", "Reads a file."], ["漢字", "mcp x", "Two wide\ncharacters. " + "long " * 30]]


def printed(*, is_tty: bool, width: int = 40) -> tuple[Output, io.StringIO]:
    stream = io.StringIO()
    return Output(stream, is_tty=is_tty, width=width), stream


def test_a_pipe_gets_aligned_whole_lines_without_colour() -> None:
    out, stream = printed(is_tty=False)

    out.table(["tool", "from", "what"], ROWS, ["cyan"])

    head, first, second = stream.getvalue().splitlines()
    assert head == "tool       from       what"
    assert first == "read_file  kit files  Reads a file."
    assert second.startswith("漢字       mcp x      Two wide characters. long")
    assert second.count("long") == 30
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_terminal_gets_every_word_within_its_width(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out, stream = printed(is_tty=True, width=width)

    out.table(["tool", "from", "what"], ROWS, ["cyan"])

    text = stream.getvalue()
    assert all(len(line) <= width for line in text.splitlines())
    assert "".join(text.split()).count("long") >= 25
    assert "\x1b[3" not in text


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert printed(is_tty=True)[0].style("x", "red") == "\x1b[31mx\x1b[0m"
    assert printed(is_tty=False)[0].style("x", "red") == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert printed(is_tty=True)[0].style("x", "red") == "x"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert printed(is_tty=True)[0].style("x", "red") == "x"


@pytest.mark.parametrize("is_tty", [True, False])
def test_somebody_elses_words_are_harmless_through_a_pager_too(is_tty: bool) -> None:
    out, stream = printed(is_tty=is_tty)
    out.text("\x1b[31mred")
    out.table(["a", "b"], [["\x1b[2J", "\u202eb"]])
    out.line(out.style("\x1b]0;title\x07", "dim"))

    shown = stream.getvalue()
    assert "␛[31mred\n" in shown
    assert not any(each in shown for each in ("\x1b[31mred", "\x1b[2J", "\x1b]", "\u202e", "\x07"))


def test_what_was_asked_for_is_harmless_on_a_terminal_and_untouched_in_a_pipe() -> None:
    for is_tty, expected in ((True, "␛[31mred\n"), (False, "\x1b[31mred\n")):
        out, stream = printed(is_tty=is_tty)
        out.contents("\x1b[31mred")
        assert stream.getvalue() == expected


def test_a_tree_is_drawn_or_indented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    branches: list[Branch] = [("a", [("b", [])]), ("c\x1b", [])]
    out, stream = printed(is_tty=False)
    out.tree("root", branches)
    assert stream.getvalue() == "root\n  a\n    b\n  c␛\n"
    out, stream = printed(is_tty=True)
    out.tree("root", branches)
    assert "└── c␛" in stream.getvalue()


def test_json_says_what_python_alone_cannot() -> None:
    out, stream = printed(is_tty=False)

    out.json({"when": datetime(2026, 1, 1, tzinfo=UTC), "path": Path("/x"), "names": frozenset({"b", "a"}), "t": "ä"})

    assert json.loads(stream.getvalue()) == {
        "when": "2026-01-01T00:00:00+00:00",
        "path": "/x",
        "names": ["a", "b"],
        "t": "ä",
    }
    assert stream.getvalue().count("\n") == 1


def test_a_stream_that_knows_only_ascii_gets_everything_spelled() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    out = Output(stream, is_tty=False)
    out.line("größe …")
    out.json({"a": "漢"})
    stream.flush()

    assert raw.getvalue() == b'gr\\xf6\\xdfe \\u2026\n{"a": "\\u6f22"}\n'


def test_bytes_go_through_a_pipe_unchanged() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8")
    Output(stream, is_tty=False).bytes(b"\xff\x00\r\n")
    stream.flush()

    assert raw.getvalue() == b"\xff\x00\r\n"


def test_progress_is_shown_on_a_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress("busy") as progress:
        progress.update("still busy")

    assert capsys.readouterr().err == ""
