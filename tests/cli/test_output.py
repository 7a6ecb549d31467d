"""Output for terminals, pipes and programs."""

import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from spindle.cli.output import (
    Branch,
    Output,
    escape_controls,
    fit_columns,
    format_age,
    format_bytes,
    format_duration,
    show_progress,
)

ROWS = [["read_file", "kit files", "Reads a file."], ["漢字", "mcp x", "Two wide\ncharacters. " + "long " * 30]]


def printed(*, is_tty: bool, width: int = 40) -> tuple[Output, io.StringIO]:
    stream = io.StringIO()
    return Output(stream, is_tty=is_tty, width=width), stream


def test_a_table_in_a_pipe_is_aligned_complete_and_without_colour() -> None:
    out, stream = printed(is_tty=False)

    out.table(["tool", "from", "what"], ROWS, ["cyan"])

    head, first, second = stream.getvalue().splitlines()
    assert head == "tool       from       what"
    assert first == "read_file  kit files  Reads a file."
    assert second.startswith("漢字       mcp x      Two wide characters. long")
    assert second.count("long") == 30
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_table_on_a_terminal_has_every_word_within_its_width(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out, stream = printed(is_tty=True, width=width)

    out.table(["tool", "from", "what"], ROWS, ["cyan"])

    text = stream.getvalue()
    assert all(len(line) <= width for line in text.splitlines())
    assert "".join(text.split()).count("long") >= 25
    assert "\x1b[3" not in text


def styled(*, is_tty: bool) -> str:
    out, stream = printed(is_tty=is_tty)
    out.line(("x", "red"), " y")
    return stream.getvalue()


def test_styles_are_written_only_to_a_terminal_that_supports_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert styled(is_tty=True) == "\x1b[31mx\x1b[0m y\n"
    assert styled(is_tty=False) == "x y\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert styled(is_tty=True) == "x y\n"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert styled(is_tty=True) == "x y\n"


@pytest.mark.parametrize("is_tty", [True, False])
def test_control_characters_of_untrusted_text_are_escaped_in_pipes_too(is_tty: bool) -> None:
    out, stream = printed(is_tty=is_tty)
    out.text("\x1b[31mred")
    out.table(["a", "b"], [["\x1b[2J", "\u202eb"]])
    out.line(("\x1b]0;title\x07", "dim"))
    out.row("\x1b[2J")
    out.prose("\x1b[2J")

    shown = stream.getvalue()
    assert "\\x1b[31mred\n" in shown
    assert not any(each in shown for each in ("\x1b[31mred", "\x1b[2J", "\x1b]", "\u202e", "\x07"))


def test_requested_content_is_escaped_on_a_terminal_and_unchanged_in_a_pipe() -> None:
    for is_tty, expected in ((True, "\\x1b[31mred\n"), (False, "\x1b[31mred\n")):
        out, stream = printed(is_tty=is_tty)
        out.contents("\x1b[31mred")
        assert stream.getvalue() == expected


def test_a_tree_is_drawn_on_a_terminal_and_indented_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    branches: list[Branch] = [("a", [("b", [])]), ("c\x1b", [])]
    out, stream = printed(is_tty=False)
    out.tree("root", branches)
    assert stream.getvalue() == "root\n  a\n    b\n  c\\x1b\n"
    out, stream = printed(is_tty=True)
    out.tree("root", branches)
    assert "└── c\\x1b" in stream.getvalue()


def test_json_on_a_terminal_has_hidden_characters_as_numbers_and_the_same_value() -> None:
    value = {"a\u202eb": "x\U000e0041\x7f\x9b\u200b\x1b[2J", "plain": "ä"}
    for is_tty in (True, False):
        out, stream = printed(is_tty=is_tty)
        out.json(value)
        out.ndjson(value)
        shown = stream.getvalue()
        assert [json.loads(shown.partition("}")[0] + "}"), json.loads(shown.splitlines()[-1])] == [value, value]
        assert ("\u202e" in shown) is not is_tty
        assert all(each.isprintable() for each in shown.splitlines()) is is_tty


def test_json_includes_dates_paths_and_sets() -> None:
    out, stream = printed(is_tty=False)

    out.json({"when": datetime(2026, 1, 1, tzinfo=UTC), "path": Path("/x"), "names": frozenset({"b", "a"}), "t": "ä"})

    assert json.loads(stream.getvalue()) == {
        "when": "2026-01-01T00:00:00+00:00",
        "path": "/x",
        "names": ["a", "b"],
        "t": "ä",
    }
    assert stream.getvalue().count("\n") == 1


def test_a_stream_with_ascii_encoding_gets_escapes() -> None:
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext äöü 漢字 🙂", "plain\n\ttext äöü 漢字 🙂"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("over\rwritten", "over\\x0dwritten"),
        ("dos\r\nline", "dos\nline"),
        ("back\b\b", "back\\x08\\x08"),
        ("\x9b31m", "\\x9b31m"),
        ("\x7f", "\\x7f"),
        ("abc\u202egpj", "abc\\u202egpj"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("lone \ud800", "lone \\ud800"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("a\u00adb\u3164c\ufe01", "a\\xadb\\u3164c\\ufe01"),
    ],
)
def test_control_characters_are_replaced_by_visible_escapes(text: str, shown: str) -> None:
    assert escape_controls(text) == shown


@given(st.text())
def test_escaped_text_has_no_control_character_but_newline_and_tab(text: str) -> None:
    shown = escape_controls(text)

    assert not [char for char in shown if (ord(char) < 32 and char not in "\n\t") or 0x7F <= ord(char) < 0xA0]
    assert escape_controls(shown) == shown


def test_prose_wraps_on_a_terminal_and_each_line_keeps_its_indentation() -> None:
    out, stream = printed(is_tty=True, width=10)
    out.prose("one two three\n\n  - four five")

    assert [line.rstrip() for line in stream.getvalue().splitlines()] == ["one two", "three", "", "  - four", "  five"]


def test_prose_is_not_wrapped_in_a_pipe() -> None:
    out, stream = printed(is_tty=False)
    out.prose("one two three\n  - " + "four " * 40)

    assert stream.getvalue() == "one two three\n  - " + "four " * 40 + "\n"


@given(st.text(alphabet=st.sampled_from("ab \n漢é́🙂"), max_size=60), st.integers(2, 20))
def test_a_row_is_one_line_within_the_width(text: str, width: int) -> None:
    out, stream = printed(is_tty=True, width=width)
    out.row(text)

    (line,) = stream.getvalue().splitlines()
    assert cell_len(line) <= width
    assert line == " ".join(text.split()) or line.endswith("…")


def test_a_closed_pipe_raises_the_error_of_the_stream() -> None:
    class ClosedPipe(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        Output(ClosedPipe(), is_tty=False).line("x")


HEAD = ["tool", "from", "", "what it does"]
WIDE_ROWS = [
    ["mcp__notes__list_directory_with_sizes", "mcp notes", "reads", "Get a listing of all files in a path."],
    ["宽字符工具", "kit 宽", "", "宽字符工具名称很长 \x1b[31mred\x1b[0m and some more words"],
]


def print_table(width: int, rows: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    Output(stream, is_tty=True, width=width).table(HEAD, rows)
    return stream.getvalue()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 160, 300])
def test_a_table_of_any_width_is_complete_and_fits_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = print_table(width, WIDE_ROWS, monkeypatch)

    assert all(cell_len(line.rstrip()) <= width for line in shown.splitlines())
    squeezed = "".join(shown.split())
    assert "mcp__notes__list_directory_with_sizes" in squeezed
    assert "\x1b" not in shown
    assert {"listing", "files"} <= {*shown.split()}


@pytest.mark.parametrize("width", [60, 80, 160])
def test_the_last_column_keeps_a_usable_width(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = print_table(width, WIDE_ROWS[:1], monkeypatch)

    assert len(shown.splitlines()) <= 5


def test_short_cells_stay_a_table_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = print_table(40, [["a", "b", "", "c"]], monkeypatch)

    assert shown.splitlines()[0].split() == ["tool", "from", "what", "it", "does"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.000_000_4, "0 µs"), (0.000_214, "214 µs"), (0.0213, "21.3 ms"), (0.5, "0.50 s"), (3.0049, "3.00 s")],
)
def test_a_duration_has_the_unit_that_reads_best(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (600 * 1024, "600 KiB"), (1 << 50, "1024 TiB")]
)
def test_a_size_has_the_unit_that_reads_best(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "0 s"), (59, "59 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 d")]
)
def test_an_age_is_rough(seconds: float, text: str) -> None:
    assert format_age(1000 - seconds, 1000) == text


ENTRIES = [
    ["2026-11-17", "mcp__files__read_file", "ok", "Read a text file, or some of its lines, and return it whole."],
    ["2026-11-16", "漢字" * 20, "needs approval", "line one\nline two\t\x1b[2J"],
    ["2026-11-15", "x", "", ""],
]


@pytest.mark.parametrize("width", [1, 10, 40, 60, 80, 120, 200])
def test_entries_take_one_line_each_and_fit_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()

    Output(stream, is_tty=True, width=width).entries(["time", "call", "how", "what"], ENTRIES, droppable=(2, 0))

    lines = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).splitlines()
    assert len(lines) == 1 + len(ENTRIES)
    assert max(map(cell_len, lines)) <= width
    assert ("2026-11-17" in lines[1]) == (width >= 120)
    if width == 200:
        assert lines[1].endswith("return it whole.")


def test_entries_in_a_pipe_are_complete_and_separated_by_tabs() -> None:
    stream = io.StringIO()

    Output(stream, is_tty=False).entries(["time", "call", "how", "what"], ENTRIES, ["cyan"], droppable=(2, 0))

    head, *rows = [line.split("\t") for line in stream.getvalue().splitlines()]
    assert head == ["time", "call", "how", "what"]
    assert rows[0] == ENTRIES[0]
    assert rows[1][1:] == ["漢字" * 20, "needs approval", "line one line two \\x1b[2J"]
    assert rows[2] == ["2026-11-15", "x"]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=6), st.integers(1, 300), st.data())
def test_columns_fit_and_the_first_ones_are_dropped_first(natural: list[int], width: int, data: st.DataObject) -> None:
    droppable = data.draw(st.permutations(range(len(natural) - 1)))

    shown = fit_columns(natural, width, droppable)

    last = len(natural) - 1
    assert last in shown
    assert all(size <= max(1, natural[column]) for column, size in shown.items())
    dropped = [column for column in droppable if column not in shown]
    assert dropped == list(droppable[: len(dropped)])
    if set(shown) == {last}:
        assert shown[last] <= max(1, width)
