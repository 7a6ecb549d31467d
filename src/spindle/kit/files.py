"""The tools `read_file`, `write_file`, `patch_file` and `list_dir` on the files capability; decoding and patching."""

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from spindle.calls import Err, Ok
from spindle.capabilities.declare import Capabilities, FileReach
from spindle.capabilities.files.paths import DirEntry, Files, shown
from spindle.errors import FileAccessError
from spindle.kit import reducers
from spindle.text import to_printable
from spindle.tools.context import ToolContext
from spindle.tools.declaration import tool
from spindle.trust.flow.roles import Content, Free, Ref

_MAX_SHOWN = 20
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class PatchResult:
    """The patched text, or `None`, and a message."""

    text: str | None
    message: str


def apply_patch(text: str, old: str, new: str, count: int) -> PatchResult:
    """Replace `old` by `new` if it occurs exactly `count` times."""
    if old == new:
        return PatchResult(None, "old and new are the same text.")
    old, new = _with_line_ends_of(text, old, new)
    places = _places(text, old)
    if len(places) == count:
        at = "line" if count == 1 else "lines"
        return PatchResult(text.replace(old, new), f"{count} replaced, at {at} {_format_lines(places)}.")
    if not places:
        return PatchResult(None, f"old was not found. {_describe_near_match(text, old)}")
    times = "once" if len(places) == 1 else f"{len(places)} times"
    hint = "include more of the surrounding lines" if len(places) > count else "read it again with read_file"
    return PatchResult(
        None,
        f"old was found {times}, not {count}: at {_format_lines(places)}. "
        f"Either {hint}, or set count to {len(places)}.",
    )


def _with_line_ends_of(text: str, old: str, new: str) -> tuple[str, str]:
    """Convert `old` and `new` to the file's line endings, since models write plain newlines."""
    if "\r\n" not in text or "\r\n" in old or ("\n" in old and old in text):
        return old, new
    return old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")


def _places(text: str, old: str) -> list[int]:
    """Return the line numbers (from 1) where `old` starts."""
    lines: list[int] = []
    line, seen = 1, 0
    at = text.find(old)
    while at >= 0:
        line += text.count("\n", seen, at)
        lines.append(line)
        seen = at
        at = text.find(old, at + len(old))
    return lines


def _format_lines(lines: list[int]) -> str:
    more = f" and {len(lines) - _MAX_SHOWN} more" if len(lines) > _MAX_SHOWN else ""
    return ", ".join(map(str, lines[:_MAX_SHOWN])) + more


def _describe_near_match(text: str, old: str) -> str:
    """Return a hint where the text occurs with different whitespace or case."""
    for way, normal in (("spaces or line breaks", _remove_whitespace), ("upper and lower case", str.casefold)):
        wanted = normal(old)
        if wanted and (found := normal(text).find(wanted)) >= 0:
            line = _line_of(text, normal, found)
            return f"It occurs at line {line}, but with different {way}; copy it exactly, with read_file's start_line."
    first = _remove_whitespace(next((line for line in old.splitlines() if line.strip()), ""))
    starts = [number for number, line in enumerate(text.splitlines(), 1) if first and _remove_whitespace(line) == first]
    if starts:
        return f"Its first line occurs at {_format_lines(starts)}, but the lines after it differ."
    return "Read the file to see its current content."


def _remove_whitespace(text: str) -> str:
    return _SPACES.sub("", text)


def _line_of(text: str, normal: object, found: int) -> int:
    """Return the line that contains the character at offset `found` of the normalized text."""
    seen = 0
    for number, line in enumerate(text.split("\n"), 1):
        seen += len(_remove_whitespace(line)) if normal is _remove_whitespace else len(line.casefold()) + 1
        if found < seen:
            return number
    return text.count("\n") + 1


_SNIFFED_BYTES = 8_192
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is a prefix of it
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NAMES = {"utf-8-sig": "UTF-8", "utf-16": "UTF-16", "utf-32": "UTF-32", "latin-1": "Latin-1"}
# Control codes that occur in text of a single-byte encoding: tab, line ends, form feed, escape.
_PLAIN_CONTROLS = frozenset(b"\t\n\r\f\x1b")
_MAX_CONTROLS = 0.01


@dataclass(frozen=True, slots=True)
class DecodedText:
    """A file's text and its encoding."""

    text: str
    encoding: str
    mark: bytes = b""

    @property
    def note(self) -> str | None:
        """A note for the model if the file is not UTF-8."""
        if self.encoding in ("utf-8", "utf-8-sig"):
            return None
        guessed = " because it is not valid UTF-8; some characters may be wrong" if self.encoding == "latin-1" else ""
        return f"[read as {_NAMES[self.encoding]}{guessed}]"

    def encode(self, text: str) -> bytes:
        """Encode another text in the same encoding, with the same byte order mark.

        Raises:
            UnicodeEncodeError: The encoding cannot represent it.
        """
        if not self.mark:
            return text.encode(self.encoding)
        if self.encoding == "utf-8-sig":
            return self.mark + text.encode()
        order = "le" if self.mark[0] == 0xFF else "be"
        return self.mark + text.encode(f"{self.encoding}-{order}")


def decode_text(data: bytes) -> DecodedText | None:
    """Decode UTF-8, any encoding with a byte order mark, or else Latin-1; return `None` for binary data."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return DecodedText(data.decode(encoding), encoding, mark)
            except UnicodeDecodeError:
                if encoding != "utf-32":  # whose mark may also be that of UTF-16 followed by a NUL
                    return None
    if b"\0" in data[:_SNIFFED_BYTES]:
        return None
    try:
        return DecodedText(data.decode(), "utf-8")
    except UnicodeDecodeError:
        return None if _looks_binary(data[:_SNIFFED_BYTES]) else DecodedText(data.decode("latin-1"), "latin-1")


def _looks_binary(sample: bytes) -> bool:
    odd = sum(byte < 32 and byte not in _PLAIN_CONTROLS for byte in sample)
    return odd > len(sample) * _MAX_CONTROLS


READING = Capabilities(files=FileReach(read=["."]))
WRITING = Capabilities(files=FileReach(read=["."], write=["."]))

Path = Annotated[str, Field(min_length=1, max_length=4_096)]
Line = Annotated[int, Field(ge=1)]


def _resources(args: Any) -> Iterable[str]:
    """Return the lock name of the file, so that no two calls write it at once and none reads a partial write."""
    parts = [part for part in str(reducers.argument(args, "path")).split("/") if part not in ("", ".")]
    return [f"file:{'/'.join(parts)}"]


def _would_write(args: Any, _ctx: object) -> str:
    return f"write {len(args['content'])} characters to {shown(args['path'])}"


def _would_patch(args: Any, _ctx: object) -> str:
    return f"replace {len(args['old'])} characters in {shown(args['path'])}, {args['count']} times"


@tool(
    toolset="files",
    capabilities=READING,
    resources=_resources,
    read_only=True,
    timeout_seconds=60,
    max_result_chars=40_000,
)
async def read_file(
    path: Path, start_line: Line | None = None, end_line: Line | None = None, *, ctx: ToolContext
) -> Ok | Err:
    """Read a text file, or some of its lines. Nothing is added to the text: no line numbers, no headings.

    Args:
        path: The file, relative to the workspace, such as "src/app.py".
        start_line: The first line to read, counted from 1; leave it out to begin at the top.
        end_line: The last line to read, which is included; leave it out to read to the end.
    """
    found = await _text(ctx.files, path)
    if isinstance(found, Err):
        return found
    lines = _lines(found.text)
    first, last = start_line or 1, min(end_line or len(lines), len(lines))
    if start_line is not None and end_line is not None and end_line < start_line:
        return Err("input_invalid", f"end_line {end_line} is before start_line {start_line}.", field="end_line")
    if first > max(len(lines), 1):
        return Err(
            "input_invalid",
            f"{shown(path)} has {len(lines)} lines, and start_line is {first}; ask for lines 1 to {len(lines)}.",
            field="start_line",
        )
    text = "".join(lines[first - 1 : last])
    facts = {"path": path, "encoding": found.encoding, "total_lines": len(lines), "note": found.note}
    return Ok(f"{found.note}\n{text}" if found.note else text, structured=facts)


@tool(
    toolset="files",
    capabilities=WRITING,
    resources=_resources,
    output="first-party",
    produces={"file": "path"},
    idempotent=True,
    timeout_seconds=60,
    preview=_would_write,
)
async def write_file(
    path: Annotated[Path, Ref("file")], content: Annotated[str, Content()], *, ctx: ToolContext
) -> Ok | Err:
    """Write a whole text file (UTF-8); creates or replaces the file, and creates folders as needed.

    To change a part of a file use patch_file. The write is refused if the file was changed by someone else since you
    read it: read it again first.

    Args:
        path: The file, relative to the workspace, such as "notes/todo.md".
        content: The whole new text.
    """
    try:
        data = content.encode()
    except UnicodeEncodeError:
        return Err("input_invalid", "content contains half a character (a lone surrogate).", field="content")
    await ctx.files.write_bytes(path, data)
    lines = len(_lines(content))
    return Ok(f"Wrote {shown(path)}: {lines} lines, {len(data)} bytes.", structured={"path": path, "bytes": len(data)})


@tool(
    toolset="files",
    capabilities=WRITING,
    resources=_resources,
    output="first-party",
    timeout_seconds=60,
    preview=_would_patch,
)
async def patch_file(
    path: Annotated[Path, Ref("file")],
    old: Annotated[str, Field(min_length=1), Content()],
    new: Annotated[str, Content()],
    count: Annotated[int, Field(ge=1, le=10_000), Free()] = 1,
    *,
    ctx: ToolContext,
) -> Ok | Err:
    """Replace text in a file. `old` must occur exactly `count` times, or nothing is changed.

    Include enough of the surrounding lines in `old` to make it unique. To change all of 3 places, set count to 3.

    Args:
        path: The file, relative to the workspace.
        old: The text to replace, exactly as it is in the file, with its spaces and line breaks.
        new: The replacement; empty to delete.
        count: How often `old` occurs.
    """
    files = ctx.files
    found = await _text(files, path)
    if isinstance(found, Err):
        return found
    outcome = apply_patch(found.text, old, new, count)
    if outcome.text is None:
        return Err("input_invalid", f"{shown(path)} is unchanged: {outcome.message}", field="old")
    try:
        data = found.encode(outcome.text)
    except UnicodeEncodeError as error:
        return Err(
            "input_invalid", f"{shown(path)} is in {found.encoding}: {_describe_encode_error(error)}", field="new"
        )
    await files.write_bytes(path, data)
    return Ok(f"Changed {shown(path)}: {outcome.message}", structured={"path": path, "replaced": count})


@tool(
    toolset="files",
    capabilities=READING,
    resources=_resources,
    read_only=True,
    timeout_seconds=60,
    max_result_chars=20_000,
)
async def list_dir(path: Path = ".", *, ctx: ToolContext) -> Ok:
    """List a folder: one name per line, folders with a slash at the end, files with their size.

    Args:
        path: The folder, relative to the workspace; "." is the workspace itself.
    """
    files = ctx.files
    entries = await files.list(path)
    if not entries and await files.stat(path) is None:
        raise FileAccessError(
            f"folder {shown(path)} does not exist; list_dir of its parent folder shows what exists",
            path=path,
            reason="missing",
        )
    entries.sort(key=lambda entry: (entry.kind != "folder", entry.name))
    facts = [{"name": to_printable(entry.name), "kind": entry.kind, "bytes": entry.size_bytes} for entry in entries]
    return Ok("\n".join(map(_line, entries)) or "(empty)", structured=facts)


async def _text(files: Files, path: str) -> DecodedText | Err:
    data = await files.read_bytes(path)
    found = decode_text(data)
    if found is None:
        return Err("execution_failed", f"{shown(path)} is a binary file of {len(data)} bytes, not text.", field="path")
    return found


def _lines(text: str) -> list[str]:
    """Split into lines with their terminators; only a newline ends a line, as in artifacts."""
    parts = text.split("\n")
    lines = [f"{part}\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _line(entry: DirEntry) -> str:
    name = to_printable(entry.name)
    if entry.kind == "folder":
        return f"{name}/"
    return f"{name}  {entry.size_bytes} bytes" if entry.kind == "file" else f"{name}  ({entry.kind})"


def _describe_encode_error(error: UnicodeEncodeError) -> str:
    return f"it cannot encode {error.object[error.start]!r}. Use other characters, or write the whole file as UTF-8."
