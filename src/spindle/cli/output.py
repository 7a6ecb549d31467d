"""What the command prints: for people on a terminal, plain in a pipe, JSON for programs."""

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


def visible(text: str) -> str:
    """The text with every character shown that would move the cursor, colour, hide or turn round what follows."""
    return _CONTROL.sub(_shown, text.replace("\r\n", "\n"))


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def flatten(text: str) -> str:
    """The text on one line, nothing left out."""
    return " ".join(text.split())


def width_of(text: str) -> int:
    """How many columns a terminal needs for a line."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def cut(text: str, columns: int) -> str:
    """The beginning of a line that fits, with an ellipsis where something is left out."""
    if width_of(text) <= columns:
        return text
    used, end = 0, 0
    for end, char in enumerate(text):  # noqa: B007
        used += _columns(char)
        if used > columns - 1:
            break
    return f"{text[:end].rstrip()}…"


def wrapped(text: str, columns: int | None) -> str:
    """The text with its lines broken between words where they are too long; each keeps its indentation."""
    if columns is None:
        return text
    lines: list[str] = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(line, columns, subsequent_indent=indent, break_on_hyphens=False) or [""]
    return "\n".join(lines)


def padded(text: str, columns: int) -> str:
    """The text with blanks up to a width."""
    return text + " " * (columns - width_of(text))


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


_GAP = "  "
Branch: TypeAlias = "tuple[str, Sequence[Branch]]"
"""A text, and what hangs below it."""
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
    """Writes to one stream, as that stream wants it."""

    def __init__(self, stream: IO[str] | None = None, *, is_tty: bool | None = None, width: int | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self.is_tty = self._stream.isatty() if is_tty is None else is_tty
        self.has_colour = self.is_tty and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.width = (width or shutil.get_terminal_size().columns) if self.is_tty else None
        """How wide a line may be; `None` where nothing is cut."""

    def line(self, text: str = "") -> None:
        """Write our own words, styles and all."""
        self._write(f"{text}\n")

    def text(self, text: str) -> None:
        """Write somebody else's words, for people: also through a pager they cannot do anything but be read."""
        self.contents(visible(text))

    def contents(self, text: str) -> None:
        """Write what was asked for as it is; on a terminal it cannot do anything but be read."""
        shown = visible(text) if self.is_tty else text
        self._write(shown if shown.endswith("\n") else f"{shown}\n")

    def json(self, value: Any) -> None:
        """Write one JSON document on its own lines for people, on one line for programs."""
        indent = 2 if self.is_tty else None
        self._write(f"{json.dumps(value, indent=indent, ensure_ascii=self._is_narrow, default=plain)}\n")

    @property
    def stream(self) -> IO[str]:
        """What is written to."""
        return self._stream

    def ndjson(self, value: Any) -> None:
        """Write one document of a stream, and do not keep it back."""
        self._write(f"{json.dumps(value, ensure_ascii=self._is_narrow, default=plain)}\n")
        self._stream.flush()

    def styled(self, text: str, style: str) -> str:
        """Our own or somebody's words in a colour, where there are colours."""
        safe = visible(text)
        if not self.has_colour or not safe:
            return safe
        return f"\x1b[{';'.join(_STYLES[each] for each in style.split())}m{safe}\x1b[0m"

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str] = ()) -> None:
        """Write columns: wrapped to fit a terminal, aligned and whole in a pipe."""
        if self.is_tty:
            from spindle.cli.terminal_tables import print_table  # noqa: PLC0415 - rich, only for a terminal

            print_table(self, head, rows, styles)
            return
        lines = [[flatten(visible(cell)) for cell in row] for row in (head, *rows)]
        widths = [max(width_of(row[column]) for row in lines) for column in range(len(head))]
        for row in lines:
            self.line(_GAP.join(padded(text, width) for text, width in zip(row, widths, strict=True)).rstrip())

    def tree(self, root: str, branches: Sequence[Branch]) -> None:
        """Write a tree of texts, each with more of them below."""
        if self.is_tty:
            from spindle.cli.terminal_tables import print_tree  # noqa: PLC0415 - rich, only for a terminal

            print_tree(self, root, branches)
            return
        self.text(root)
        for line in indented(branches, 1):
            self.text(line)

    def bytes(self, data: bytes) -> None:
        """Write bytes as they are, or readably on a terminal."""
        binary = getattr(self._stream, "buffer", None)
        if self.is_tty or binary is None:
            self.text(data.decode("utf-8", "replace"))
            return
        self._stream.flush()
        left = memoryview(data)
        while left:  # a stream without a buffer may take a part, such as when its reader leaves
            left = left[binary.write(left) or 0 :]

    @property
    def _is_narrow(self) -> bool:
        """Whether the stream knows only some characters, so that JSON must spell the others."""
        return (getattr(self._stream, "encoding", None) or "utf-8").lower().replace("-", "") != "utf8"

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            encoding = getattr(self._stream, "encoding", None) or "ascii"
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def indented(branches: Sequence[Branch], depth: int) -> Iterator[str]:
    """The lines of a tree in a pipe."""
    for text, below in branches:
        yield "  " * depth + flatten(text)
        yield from indented(below, depth + 1)


def plain(value: Any) -> Any:
    """What JSON cannot say by itself."""
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
    """Where errors, hints and progress go."""
    return Output(sys.stderr)


def complain(message: str, hint: str | None = None) -> None:
    """Say on one line what is wrong, and on the next what to do."""
    out = stderr()
    for line in message.splitlines() or [""]:
        out.line(f"{out.styled('spindle:', 'red bold')} {visible(line)}")
    if hint:
        out.line(f"{out.styled('hint:', 'cyan')} {visible(hint)}")


@contextmanager
def working(what: str) -> Generator["Progress"]:
    """Show on a terminal's stderr that something goes on; nowhere else."""
    progress = Progress(what)
    try:
        yield progress
    finally:
        progress.clear()


class Progress:
    """One line that is written over again."""

    def __init__(self, what: str) -> None:
        self._out = stderr()
        self._is_shown = False
        self.say(what)

    def say(self, what: str) -> None:
        """Tell how far it is."""
        if what and self._out.is_tty and self._out.width:
            line = cut(flatten(visible(what)), self._out.width - 2)
            self._write(f"\r\x1b[K{self._out.styled(line, 'dim')}")
            self._is_shown = True

    def clear(self) -> None:
        """Take the line away again."""
        if self._is_shown:
            self._write("\r\x1b[K")
            self._is_shown = False

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def warnings_to(progress: Progress) -> Events:
    """Events whose warnings are told on stderr, above the line that shows the progress, and each only once."""
    told: set[str] = set()

    def warn(event: Warned) -> None:
        if event.message not in told:
            told.add(event.message)
            progress.clear()
            complain(event.message)

    events = Events()
    events.on("warning", warn)
    return events


def one_line(text: str, max_chars: int) -> str:
    """The text on one line, cut with an ellipsis where it is too long."""
    flat = re.sub(r"\s+", " ", text[: 4 * max_chars + 200]).strip()
    return flat if len(flat) <= max_chars else f"{flat[: max_chars - 1].rstrip()}…"


def duration(seconds: float) -> str:
    """A duration in the unit in which it reads best."""
    if seconds >= 0.1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 0.001 else f"{seconds * 1e6:.0f} µs"


def byte_size(count: int) -> str:
    """A number of bytes in the unit in which it reads best."""
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.0f} {units[0]}" if units[0] == "B" or size >= 100 else f"{size:.1f} {units[0]}"


def since(moment: float, now: float) -> str:
    """How long ago something was, roughly; both in seconds since 1970."""
    seconds = max(0.0, now - moment)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
