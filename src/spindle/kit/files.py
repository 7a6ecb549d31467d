"""Reading and changing files, on the files capability: `read_file`, `write_file`, `patch_file`, `list_dir`."""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field

from spindle.calls import Err, Ok
from spindle.capabilities.declare import Capabilities, FileReach
from spindle.capabilities.files import DirEntry, Files, shown
from spindle.errors import FileAccessError
from spindle.kit.patching import patched
from spindle.kit.shorten import argument
from spindle.kit.text_files import Text, decoded
from spindle.tools.context import ToolContext
from spindle.tools.decorate import tool
from spindle.tools.problems import printable

READING = Capabilities(files=FileReach(read=["."]))
WRITING = Capabilities(files=FileReach(read=["."], write=["."]))

Path = Annotated[str, Field(min_length=1, max_length=4_096)]
Line = Annotated[int, Field(ge=1)]


def _resources(args: Any) -> Iterable[str]:
    """Name the file, so that two calls never change it at once and none reads it half-way."""
    parts = [part for part in str(argument(args, "path")).split("/") if part not in ("", ".")]
    return [f"file:{'/'.join(parts)}"]


def _would_write(args: Any, _ctx: Any) -> str:
    return f"write {len(args['content'])} characters to {shown(args['path'])}"


def _would_patch(args: Any, _ctx: Any) -> str:
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
    idempotent=True,
    timeout_seconds=60,
    preview=_would_write,
)
async def write_file(path: Path, content: str, *, ctx: ToolContext) -> Ok | Err:
    """Write a whole text file (UTF-8), new or in the place of the old one; folders are made as needed.

    To change a part of a file use patch_file. The write is refused when the file was changed by somebody else since
    you read it: read it again first.

    Args:
        path: The file, relative to the workspace, such as "notes/todo.md".
        content: The whole new text.
    """
    try:
        data = content.encode()
    except UnicodeEncodeError:
        return Err("input_invalid", "content holds half a character (a lone surrogate).", field="content")
    await ctx.files.write_bytes(path, data)
    lines = len(_lines(content))
    return Ok(f"Wrote {shown(path)}: {lines} lines, {len(data)} bytes.", structured={"path": path, "bytes": len(data)})


@tool(
    toolset="files",
    capabilities=WRITING,
    resources=_resources,
    timeout_seconds=60,
    preview=_would_patch,
)
async def patch_file(
    path: Path,
    old: Annotated[str, Field(min_length=1)],
    new: str,
    count: Annotated[int, Field(ge=1, le=10_000)] = 1,
    *,
    ctx: ToolContext,
) -> Ok | Err:
    """Replace text in a file. `old` must occur exactly `count` times, or nothing is changed.

    Give enough of the surrounding lines in `old` to make it unique. To change every one of 3 places, give count 3.

    Args:
        path: The file, relative to the workspace.
        old: The text to replace, exactly as it stands in the file, with its spaces and line breaks.
        new: What takes its place; empty to delete.
        count: How often `old` occurs.
    """
    files: Files = ctx.files
    found = await _text(files, path)
    if isinstance(found, Err):
        return found
    outcome = patched(found.text, old, new, count)
    if outcome.text is None:
        return Err("input_invalid", f"{shown(path)} is unchanged: {outcome.said}", field="old")
    try:
        data = found.encoded(outcome.text)
    except UnicodeEncodeError as error:
        return Err("input_invalid", f"{shown(path)} is in {found.encoding}: {_unwritable(error)}", field="new")
    await files.write_bytes(path, data)
    return Ok(f"Changed {shown(path)}: {outcome.said}", structured={"path": path, "replaced": count})


@tool(
    toolset="files",
    capabilities=READING,
    resources=_resources,
    read_only=True,
    timeout_seconds=60,
    max_result_chars=20_000,
)
async def list_dir(path: Path = ".", *, ctx: ToolContext) -> Ok:
    """List a folder: one name a line, folders with a slash at the end, files with their size.

    Args:
        path: The folder, relative to the workspace; "." is the workspace itself.
    """
    files: Files = ctx.files
    entries = await files.list(path)
    if not entries and await files.stat(path) is None:
        raise FileAccessError(
            f"there is no folder {shown(path)}; list_dir of the folder above shows what is there",
            path=path,
            reason="missing",
        )
    entries.sort(key=lambda entry: (entry.kind != "folder", entry.name))
    facts = [{"name": printable(entry.name), "kind": entry.kind, "bytes": entry.size_bytes} for entry in entries]
    return Ok("\n".join(map(_line, entries)) or "(empty)", structured=facts)


async def _text(files: Files, path: str) -> Text | Err:
    data = await files.read_bytes(path)
    found = decoded(data)
    if found is None:
        return Err("execution_failed", f"{shown(path)} is a binary file of {len(data)} bytes, not text.", field="path")
    return found


def _lines(text: str) -> list[str]:
    """The lines with their ends; only a newline ends one, as everywhere else in the house."""
    parts = text.split("\n")
    lines = [f"{part}\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _line(entry: DirEntry) -> str:
    name = printable(entry.name)
    if entry.kind == "folder":
        return f"{name}/"
    return f"{name}  {entry.size_bytes} bytes" if entry.kind == "file" else f"{name}  ({entry.kind})"


def _unwritable(error: UnicodeEncodeError) -> str:
    return f"it has no {error.object[error.start]!r}. Use other characters, or write the whole file as UTF-8."
