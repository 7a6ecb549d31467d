"""Tables and trees at every width."""

import io

import pytest

from spindle.cli.output import Output, measure_width

HEAD = ["tool", "from", "", "what it does"]
ROWS = [
    ["mcp__notes__list_directory_with_sizes", "mcp notes", "reads", "Get a listing of all files in a path."],
    ["宽字符工具", "kit 宽", "", "宽字符工具名称很长 \x1b[31mred\x1b[0m and some more words"],
]


def printed(width: int, rows: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    Output(stream, is_tty=True, width=width).table(HEAD, rows)
    return stream.getvalue()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 160, 300])
def test_nothing_is_left_out_and_nothing_is_wider_than_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = printed(width, ROWS, monkeypatch)

    assert all(measure_width(line.rstrip()) <= width for line in shown.splitlines())
    squeezed = "".join(shown.split())
    assert "mcp__notes__list_directory_with_sizes" in squeezed
    assert "\x1b" not in shown
    assert {"listing", "files"} <= {*shown.split()}


@pytest.mark.parametrize("width", [60, 80, 160])
def test_the_last_column_is_never_a_gutter(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = printed(width, ROWS[:1], monkeypatch)

    assert len(shown.splitlines()) <= 5


def test_a_narrow_table_of_short_cells_stays_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = printed(40, [["a", "b", "", "c"]], monkeypatch)

    assert shown.splitlines()[0].split() == ["tool", "from", "what", "it", "does"]
