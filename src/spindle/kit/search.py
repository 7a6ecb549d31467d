"""Searching files, on the files capability: `search_files`; needs the extra `kit`."""

from contextlib import aclosing
from typing import Annotated

from pydantic import Field

from spindle.artifacts.pattern import compile_pattern
from spindle.calls import Ok
from spindle.capabilities.files import Files, shown
from spindle.errors import FileAccessError
from spindle.kit.files import READING, Path
from spindle.kit.ignoring import compile_patterns
from spindle.kit.searching import Found, Search
from spindle.tools.context import ToolContext
from spindle.tools.decorate import tool
from spindle.tools.problems import printable


@tool(toolset="files", capabilities=READING, read_only=True, timeout_seconds=120, max_result_chars=20_000)
async def search_files(
    pattern: Annotated[str, Field(min_length=1, max_length=1_000)],
    path: Path = ".",
    glob: Annotated[str, Field(min_length=1, max_length=500)] | None = None,
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100,
    ignore_case: bool = False,  # noqa: FBT001, FBT002 -- a model names its arguments
    *,
    ctx: ToolContext,
) -> Ok:
    """Search the lines of text files for a regular expression. Gives "path:line: text", one line for each hit.

    Files that .gitignore or .ignore leave out, binary files and .git are skipped. The dialect is RE2: no look-around,
    no back-references; escape ( ) [ ] { } . * + ? | with a backslash to mean themselves.

    Args:
        pattern: For example "def \\w+_reducer" or "TODO".
        path: The folder or file to search, relative to the workspace.
        glob: Only files whose path fits, such as "*.py" or "src/**/*.ts".
        limit: How many hits at most.
        ignore_case: Whether upper and lower case are the same.
    """
    files: Files = ctx.files
    compiled = compile_pattern(pattern, "i" if ignore_case else "")
    search = Search(files=files, pattern=compiled, only=None if glob is None else compile_patterns([glob]))
    stat = await files.stat(path)
    if stat is None:
        raise FileAccessError(
            f"there is nothing at {shown(path)}; list_dir shows what is there", path=path, reason="missing"
        )
    found: list[Found] = []
    if stat.kind == "folder":
        async with aclosing(search.below(path)) as hits:
            async for hit in hits:
                found.append(hit)
                if len(found) > limit:
                    break
    else:
        found = await search.inside(path, stat.size_bytes)
    return _told(found, limit, search)


def _told(found: list[Found], limit: int, search: Search) -> Ok:
    lines = [f"{printable(hit.path)}:{hit.line}: {hit.text}" for hit in found[:limit]]
    is_cut = len(found) > limit
    if is_cut:
        lines.append(f"[stopped after {limit} hits; narrow the search with path or glob, or raise limit]")
    elif not search.counts.is_complete:
        lines.append(f"[stopped, there are too many files; narrow the search with path. {search.counts.told()}]")
    elif not found:
        lines.append(f"No hits. {search.counts.told()}.")
    hits = [{"path": printable(hit.path), "line": hit.line} for hit in found[:limit]]
    return Ok("\n".join(lines), structured={"hits": hits, "is_complete": not is_cut and search.counts.is_complete})
