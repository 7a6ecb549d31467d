"""Output of the command: rich on a terminal, plain in a pipe, JSON for programs; errors and progress on stderr."""

import json
import os
import re
import shutil
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import IO, TypeAlias, cast

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.control import Control
from rich.padding import Padding
from rich.segment import ControlType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree
from typing_extensions import override

from spindle.events import Events, Warned
from spindle.json_types import JsonValue
from spindle.text import INVISIBLE, to_line


def escape_controls(text: str) -> str:
    """Return the text with control, invisible and direction characters written as numbers."""
    if text.isascii() and text.isprintable():
        return text
    return _control().sub(_escape_character, text.replace("\r\n", "\n"))


@cache
def _control() -> re.Pattern[str]:
    return re.compile(rf"[\x00-\x08\x0b-\x1f{INVISIBLE}]")  # on first use: it takes 4 ms


def _escape_character(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_in_json(found: re.Match[str]) -> str:
    data = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))


Part: TypeAlias = str | tuple[str, str]
"""A text, or a text and its style."""
Branch: TypeAlias = "tuple[str, Sequence[Branch]]"
"""A tree node: its text and its children."""

_PIPE_COLUMNS = 1 << 30
"""The width of a pipe: no line is wrapped or truncated."""
_GAP_COLUMNS = 3
_ROOM_COLUMNS = 20
"""Minimum width of the last column of a table."""
_ENTRY_GAP = 2
_MIN_COLUMNS = 12
"""A column of entries is not cut below this width."""
_ERASE_LINE = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 0))


class _Console(Console):
    @override
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit with code 1


class Output:
    """A writer for one stream, adapted to whether it is a terminal."""

    def __init__(self, stream: IO[str] | None = None, *, is_tty: bool | None = None, width: int | None = None) -> None:
        self.stream = sys.stdout if stream is None else stream
        self.is_tty = self.stream.isatty() if is_tty is None else is_tty
        if callable(reconfigure := getattr(self.stream, "reconfigure", None)):
            reconfigure(errors="backslashreplace")  # for characters that its encoding lacks
        self.console = _Console(
            file=self.stream,
            force_terminal=self.is_tty,
            color_system=None if os.environ.get("NO_COLOR") else "auto",
            width=(width or shutil.get_terminal_size().columns) if self.is_tty else _PIPE_COLUMNS,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def line(self, *parts: Part) -> None:
        """Write a line of parts, each with control characters escaped; a long line is not wrapped."""
        pairs = [(part, "") if isinstance(part, str) else part for part in parts]
        text = Text.assemble(*((escape_controls(words), style) for words, style in pairs))
        self.console.print(text, soft_wrap=True)

    def row(self, text: str) -> None:
        """Write untrusted text as one line, truncated to the width of a terminal."""
        self.console.print(Text(to_line(escape_controls(text))), no_wrap=True, overflow="ellipsis")

    def text(self, text: str) -> None:
        """Write untrusted text with control characters escaped, even in a pipe, since a pager may show it."""
        self.contents(escape_controls(text))

    def prose(self, text: str) -> None:
        """Write untrusted text; a terminal gets it wrapped between words, and each line keeps its indentation."""
        if not self.is_tty:
            self.text(text)
            return
        for line in escape_controls(text).split("\n"):
            bare = line.lstrip()
            self.console.print(Padding.indent(Text(bare), len(line) - len(bare)) if bare else "")

    def contents(self, text: str) -> None:
        """Write requested content unchanged; on a terminal, escape control characters."""
        shown = escape_controls(text) if self.is_tty else text
        self.stream.write(shown if shown.endswith("\n") else f"{shown}\n")

    def bytes(self, data: bytes) -> None:
        """Write bytes unchanged; on a terminal, as escaped text."""
        binary = getattr(self.stream, "buffer", None)
        if self.is_tty or binary is None:
            self.text(data.decode("utf-8", "replace"))
            return
        self.stream.flush()
        left = memoryview(data)
        while left:  # an unbuffered stream may write only a part
            left = left[binary.write(left) or 0 :]

    def json(self, value: JsonValue) -> None:
        """Write one JSON document, indented on a terminal and on one line otherwise."""
        self._write_json(value, indent=2 if self.is_tty else None)

    def ndjson(self, value: JsonValue) -> None:
        """Write one line of newline-delimited JSON and flush it."""
        self._write_json(value, indent=None)
        self.stream.flush()

    def _write_json(self, value: JsonValue, *, indent: int | None) -> None:
        is_ascii = not self.console.encoding.startswith("utf")
        text = json.dumps(value, indent=indent, ensure_ascii=is_ascii, default=to_json_value)
        # Such characters are only inside strings, where JSON can write them as numbers.
        self.stream.write(f"{re.sub(f'[{INVISIBLE}]', _escape_in_json, text) if self.is_tty else text}\n")

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str] = ()) -> None:
        """Write a table whose last column wraps on a terminal; in a pipe, cells are aligned and complete."""
        cells = [[to_line(escape_controls(cell)) for cell in row] for row in rows]
        if self._is_narrow([head, *cells]):
            self._print_cards(cells, styles)
            return
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
        if not self.is_tty:
            table.box, table.padding = None, (0, 2, 0, 0)
        for number, name in enumerate(head):
            is_last = number + 1 == len(head)
            style = styles[number] if number < len(styles) else ""
            table.add_column(Text(name), style=style, overflow="fold", no_wrap=not is_last)
        for row in cells:
            table.add_row(*map(Text, row))
        if self.is_tty:
            self.console.print(table)
            return
        with self.console.capture() as captured:
            self.console.print(table)
        self.stream.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())

    def entries(
        self,
        head: Sequence[str] | None,
        rows: Sequence[Sequence[str]],
        styles: Sequence[str] = (),
        *,
        droppable: Sequence[int] = (),
    ) -> None:
        """Write one line for each row: cut to the width of a terminal; in a pipe complete, with tabs between cells.

        The columns `droppable` are left out in that order where the last column would become too narrow.
        """
        lines = [list(head)] if head is not None else []
        lines += [[_indent_kept(cell) for cell in row] for row in rows]
        if not self.is_tty:
            self.stream.writelines("\t".join(cells).rstrip("\t") + "\n" for cells in lines)
            return
        natural = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
        widths = fit_columns(natural, self.console.width, droppable)
        for number, cells in enumerate(lines):
            line = Text()
            for column, width in widths.items():
                style = "bold" if head is not None and not number else styles[column] if column < len(styles) else ""
                cell = Text(cells[column], style=style)
                is_last = column == max(widths)
                cell.truncate(width, overflow="ellipsis", pad=not is_last)
                line.append_text(cell)
                line.append("" if is_last else " " * _ENTRY_GAP)
            line.rstrip()
            self.console.print(line, no_wrap=True, overflow="crop")

    def _is_narrow(self, lines: Sequence[Sequence[str]]) -> bool:
        """Return whether the other columns leave too little width for the last one."""
        *before, last = (max(map(cell_len, column)) for column in zip(*lines, strict=True))
        return self.console.width - sum(width + _GAP_COLUMNS for width in before) < min(last, _ROOM_COLUMNS)

    def _print_cards(self, rows: Sequence[Sequence[str]], styles: Sequence[str]) -> None:
        """Write each row as separate lines, for terminals too narrow for columns."""
        for first, *others in rows:
            self.console.print(Text(first, style=styles[0] if styles else ""), overflow="fold")
            rest = " · ".join(cell for cell in others if cell)
            self.console.print(Padding(Text(rest), (0, 0, 0, 2)), overflow="fold")

    def tree(self, root: str, branches: Sequence[Branch]) -> None:
        """Write a tree; in a pipe, indented with spaces."""
        if self.is_tty:
            tree = Tree(Text(escape_controls(root), style="bold"), guide_style="dim")
            _add_branches(tree, branches)
            self.console.print(tree)
            return
        self.text(root)
        for line in _indent(branches, 1):
            self.text(line)


def _indent_kept(cell: str) -> str:
    bare = to_line(escape_controls(cell))
    return " " * (len(cell) - len(cell.lstrip(" "))) + bare


def fit_columns(natural: Sequence[int], width: int, droppable: Sequence[int] = ()) -> dict[int, int]:
    """Return the columns to show and their widths, which fill at most `width` with the gaps between them.

    The last column gets what the others leave. Where that is less than it needs to be readable, the columns of
    `droppable` go in turn; then the widest of the others is cut.
    """
    shown = dict(enumerate(natural))
    last = len(natural) - 1
    needed = min(natural[last], _ROOM_COLUMNS)

    def measure_room() -> int:
        return width - sum(each + _ENTRY_GAP for column, each in shown.items() if column != last)

    for column in droppable:
        if measure_room() >= needed:
            break
        shown.pop(column, None)
    others = [column for column in shown if column != last]
    while others and measure_room() < needed and max(shown[column] for column in others) > _MIN_COLUMNS:
        widest = max(others, key=lambda column: shown[column])
        shown[widest] -= min(needed - measure_room(), shown[widest] - _MIN_COLUMNS)
    shown[last] = max(1, min(natural[last], measure_room()))
    return shown


def _add_branches(tree: Tree, branches: Sequence[Branch]) -> None:
    for text, below in branches:
        _add_branches(tree.add(Text(to_line(escape_controls(text)))), below)


def _indent(branches: Sequence[Branch], depth: int) -> Iterator[str]:
    for text, below in branches:
        yield "  " * depth + to_line(text)
        yield from _indent(below, depth + 1)


def to_json_value(value: object) -> JsonValue:
    """Convert a value that `json` cannot serialize."""
    match value:
        case datetime():
            return value.isoformat()
        case frozenset() | set():
            return sorted(cast("set[str]", value))
        case Mapping():
            return dict(cast("Mapping[str, JsonValue]", value))
        case bytes():
            return value.decode("utf-8", "replace")
        case _:
            return str(value)


def stderr() -> Output:
    """Return the output for errors, hints and progress."""
    return Output(sys.stderr)


def print_message(message: str, hint: str | None = None) -> None:
    """Print an error message, and below it a hint, on stderr."""
    out = stderr()
    for line in message.splitlines() or [""]:
        out.line(("spindle:", "red bold"), f" {line}")
    if hint:
        out.line(("hint:", "cyan"), f" {hint}")


@contextmanager
def show_progress(what: str) -> Generator["Progress"]:
    """Show a progress line while the block runs, only if stderr is a terminal."""
    progress = Progress(what)
    try:
        yield progress
    finally:
        progress.clear()


class Progress:
    """A progress line on stderr that is overwritten in place."""

    def __init__(self, what: str) -> None:
        self._console = stderr().console
        self._can_erase = self._console.is_terminal and not self._console.is_dumb_terminal
        self._is_shown = False
        self.update(what)

    def update(self, what: str) -> None:
        """Replace the progress line."""
        if what and self._can_erase:
            line = Text(to_line(escape_controls(what)), style="dim")
            line.truncate(self._console.width - 2, overflow="ellipsis")
            self._console.control(_ERASE_LINE)
            self._console.print(line, end="", soft_wrap=True)
            self._is_shown = True

    def clear(self) -> None:
        """Erase the progress line."""
        if self._is_shown:
            self._console.control(_ERASE_LINE)
            self._is_shown = False


def build_warning_events(progress: Progress) -> Events:
    """Return events whose warnings are printed on stderr above the progress line, each message once."""
    warned: set[str] = set()

    def warn(event: Warned) -> None:
        if event.message not in warned:
            warned.add(event.message)
            progress.clear()
            print_message(event.message)

    events = Events()
    events.on("warning", warn)
    return events


def format_duration(seconds: float) -> str:
    """Format a duration in s, ms or µs."""
    if seconds >= 0.1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 0.001 else f"{seconds * 1e6:.0f} µs"


def format_bytes(count: int) -> str:
    """Format a number of bytes with a binary unit."""
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.0f} {units[0]}" if units[0] == "B" or size >= 100 else f"{size:.1f} {units[0]}"


def format_age(moment: float, now: float) -> str:
    """Format the age of a moment roughly; both arguments are seconds since the epoch."""
    seconds = max(0.0, now - moment)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
