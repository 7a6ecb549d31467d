"""Output of the command: styled on a terminal, plain in a pipe, JSON for programs; errors and progress on stderr."""

import json
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from spindle.events import Events, Warned

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def escape_controls(text: str) -> str:
    """Return the text with control, invisible and direction characters replaced by visible escapes."""
    return _CONTROL.sub(_escape_character, text.replace("\r\n", "\n"))


def _escape_character(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def flatten(text: str) -> str:
    """Return the text on one line, without truncating it."""
    return " ".join(text.split())


def measure_width(text: str) -> int:
    """Return the number of terminal columns of a line."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def truncate_line(text: str, columns: int) -> str:
    """Truncate a line to a number of columns, with an ellipsis."""
    if measure_width(text) <= columns:
        return text
    used, end = 0, 0
    for end, char in enumerate(text):  # noqa: B007
        used += _columns(char)
        if used > columns - 1:
            break
    return f"{text[:end].rstrip()}…"


def wrap_lines(text: str, columns: int | None) -> str:
    """Wrap long lines between words, keeping the indentation of each; `None` does not wrap."""
    if columns is None:
        return text
    lines: list[str] = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(line, columns, subsequent_indent=indent, break_on_hyphens=False) or [""]
    return "\n".join(lines)


def pad_right(text: str, columns: int) -> str:
    """Pad the text with spaces to a number of columns."""
    return text + " " * (columns - measure_width(text))


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


_GAP = "  "
Branch: TypeAlias = "tuple[str, Sequence[Branch]]"
"""A tree node: its text and its children."""
_STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
}


class Output:
    """A writer for one stream, adapted to whether it is a terminal."""

    def __init__(self, stream: IO[str] | None = None, *, is_tty: bool | None = None, width: int | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self.is_tty = self._stream.isatty() if is_tty is None else is_tty
        self.has_colour = self.is_tty and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.width = (width or shutil.get_terminal_size().columns) if self.is_tty else None
        """The width of the terminal; `None` if lines are not truncated."""

    def line(self, text: str = "") -> None:
        """Write a line of trusted text, which may contain styles."""
        self._write(f"{text}\n")

    def text(self, text: str) -> None:
        """Write untrusted text with control characters escaped, even in a pipe, since a pager may show it."""
        self.contents(escape_controls(text))

    def contents(self, text: str) -> None:
        """Write requested content unchanged; on a terminal, escape control characters."""
        shown = escape_controls(text) if self.is_tty else text
        self._write(shown if shown.endswith("\n") else f"{shown}\n")

    def json(self, value: Any) -> None:
        """Write one JSON document, indented on a terminal and on one line otherwise."""
        indent = 2 if self.is_tty else None
        self._write(f"{json.dumps(value, indent=indent, ensure_ascii=self._is_narrow, default=to_json_value)}\n")

    @property
    def stream(self) -> IO[str]:
        """The underlying stream."""
        return self._stream

    def ndjson(self, value: Any) -> None:
        """Write one line of newline-delimited JSON and flush it."""
        self._write(f"{json.dumps(value, ensure_ascii=self._is_narrow, default=to_json_value)}\n")
        self._stream.flush()

    def style(self, text: str, style: str) -> str:
        """Return the text escaped and, if the stream has colours, styled."""
        safe = escape_controls(text)
        if not self.has_colour or not safe:
            return safe
        return f"\x1b[{';'.join(_STYLES[each] for each in style.split())}m{safe}\x1b[0m"

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str] = ()) -> None:
        """Write a table, wrapped to fit a terminal, aligned and untruncated in a pipe."""
        if self.is_tty:
            from spindle.cli.terminal_tables import print_table  # noqa: PLC0415 - rich, only for a terminal

            print_table(self, head, rows, styles)
            return
        lines = [[flatten(escape_controls(cell)) for cell in row] for row in (head, *rows)]
        widths = [max(measure_width(row[column]) for row in lines) for column in range(len(head))]
        for row in lines:
            self.line(_GAP.join(pad_right(text, width) for text, width in zip(row, widths, strict=True)).rstrip())

    def tree(self, root: str, branches: Sequence[Branch]) -> None:
        """Write a tree of texts."""
        if self.is_tty:
            from spindle.cli.terminal_tables import print_tree  # noqa: PLC0415 - rich, only for a terminal

            print_tree(self, root, branches)
            return
        self.text(root)
        for line in indent_tree(branches, 1):
            self.text(line)

    def bytes(self, data: bytes) -> None:
        """Write bytes unchanged; on a terminal, as escaped text."""
        binary = getattr(self._stream, "buffer", None)
        if self.is_tty or binary is None:
            self.text(data.decode("utf-8", "replace"))
            return
        self._stream.flush()
        left = memoryview(data)
        while left:  # an unbuffered stream may write only a part
            left = left[binary.write(left) or 0 :]

    @property
    def _is_narrow(self) -> bool:
        """Whether the stream's encoding is not UTF-8, so that JSON must escape non-ASCII characters."""
        return (getattr(self._stream, "encoding", None) or "utf-8").lower().replace("-", "") != "utf8"

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            encoding = getattr(self._stream, "encoding", None) or "ascii"
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def indent_tree(branches: Sequence[Branch], depth: int) -> Iterator[str]:
    """Yield the lines of a tree, indented with spaces."""
    for text, below in branches:
        yield "  " * depth + flatten(text)
        yield from indent_tree(below, depth + 1)


def to_json_value(value: Any) -> Any:
    """Convert a value that `json` cannot serialize."""
    match value:
        case datetime():
            return value.isoformat()
        case Path():
            return str(value)
        case frozenset() | set():
            return sorted(cast("set[str]", value))
        case Mapping():
            return dict(cast("Mapping[str, Any]", value))
        case tuple():
            return list(cast("tuple[Any, ...]", value))
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
        out.line(f"{out.style('spindle:', 'red bold')} {escape_controls(line)}")
    if hint:
        out.line(f"{out.style('hint:', 'cyan')} {escape_controls(hint)}")


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
        self._out = stderr()
        self._is_shown = False
        self.update(what)

    def update(self, what: str) -> None:
        """Replace the progress line."""
        if what and self._out.is_tty and self._out.width:
            line = truncate_line(flatten(escape_controls(what)), self._out.width - 2)
            self._write(f"\r\x1b[K{self._out.style(line, 'dim')}")
            self._is_shown = True

    def clear(self) -> None:
        """Erase the progress line."""
        if self._is_shown:
            self._write("\r\x1b[K")
            self._is_shown = False

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def build_warning_events(progress: Progress) -> Events:
    """Return events whose warnings are printed on stderr above the progress line, each message once."""
    told: set[str] = set()

    def warn(event: Warned) -> None:
        if event.message not in told:
            told.add(event.message)
            progress.clear()
            print_message(event.message)

    events = Events()
    events.on("warning", warn)
    return events


def one_line(text: str, max_chars: int) -> str:
    """Return the text on one line, truncated with an ellipsis."""
    flat = re.sub(r"\s+", " ", text[: 4 * max_chars + 200]).strip()
    return flat if len(flat) <= max_chars else f"{flat[: max_chars - 1].rstrip()}…"


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
