"""The tool `search_files`, on the files capability, with ignore rules and the directory walk; needs the extra `kit`."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from pydantic import Field

from spindle.artifacts.grep import Pattern, compile_pattern
from spindle.calls import Ok
from spindle.capabilities.files.paths import DirEntry, Files, shown
from spindle.errors import CapabilityError, FileAccessError
from spindle.extras import needs_extra
from spindle.kit.files import READING, Path, decode_text
from spindle.text import to_printable
from spindle.tools.context import ToolContext
from spindle.tools.declaration import tool

IGNORE_FILES = (".ignore", ".gitignore")
"""Ordered by precedence, highest first."""
ALWAYS_IGNORED = frozenset({".git", ".hg", ".svn"})
MAX_LINES = 1_000
MAX_RULE_CHARS = 1_000


class PathPatterns(Protocol):
    """The compiled patterns of one file; the interface of `pathspec`."""

    def check_file(self, file: str) -> Any:
        """Return a result whose `include` is the verdict of the last matching pattern."""
        ...


@dataclass(frozen=True, slots=True)
class DirectoryRules:
    """Patterns that apply to one directory and below."""

    folder: str
    """The directory: empty, or ending with a slash."""
    spec: PathPatterns


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """All ignore rules of a directory; for each kind of ignore file, the nearest directory comes last."""

    by_kind: tuple[tuple[DirectoryRules, ...], ...] = tuple(() for _ in IGNORE_FILES)

    def extend(self, folder: str, texts: dict[str, str]) -> "IgnoreRules":
        """Return the rules extended by the ignore files in `folder`."""
        if not texts:
            return self
        prefix = "" if folder in ("", ".") else f"{folder}/"
        kinds = zip(IGNORE_FILES, self.by_kind, strict=True)
        return IgnoreRules(
            tuple(
                (*rules, DirectoryRules(prefix, compile_patterns(texts[name].splitlines()))) if name in texts else rules
                for name, rules in kinds
            )
        )

    def is_ignored(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a path is ignored; its parent directories must have been checked before."""
        if path.rpartition("/")[2] in ALWAYS_IGNORED:
            return True
        asked = replace_surrogates(path) + ("/" if is_folder else "")
        for kind in self.by_kind:
            for rules in reversed(kind):
                verdict = rules.spec.check_file(asked.removeprefix(rules.folder)).include
                if verdict is not None:
                    return bool(verdict)
        return False


def compile_patterns(lines: list[str]) -> PathPatterns:
    """Compile gitignore patterns with RE2, which runs in linear time; invalid patterns are skipped.

    Raises:
        MissingExtraError: The extra `kit` is not installed.
    """
    with needs_extra("kit"):
        from pathspec import GitIgnoreSpec  # noqa: PLC0415 - an extra
    kept = [line for line in lines[:MAX_LINES] if len(line) <= MAX_RULE_CHARS and replace_surrogates(line) == line]
    try:
        return GitIgnoreSpec.from_lines(kept, backend="re2")
    except ValueError:
        return GitIgnoreSpec.from_lines([line for line in kept if _is_pattern(line)], backend="re2")


def replace_surrogates(name: str) -> str:
    """Replace lone surrogates in a name, which patterns cannot contain."""
    return name.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - an extra

    try:
        GitIgnoreSpec.from_lines([line], backend="re2")
    except ValueError:
        return False
    return True


MAX_FILE_BYTES = 4 << 20
MAX_FILES = 50_000
MAX_FOLDERS = 20_000
MAX_LINE_CHARS = 300
_BEFORE_CHARS = 80
_MAX_IGNORE_FILE_BYTES = 1 << 20


@dataclass(slots=True)
class SearchCounts:
    """Counts of searched and skipped files."""

    searched: int = 0
    binary: int = 0
    too_large: int = 0
    unreadable: int = 0
    withheld: int = 0
    """Files and folders that no grant opens."""
    is_complete: bool = True
    """Whether every file was visited."""

    def describe(self) -> str:
        """Describe how many files were searched and skipped."""
        skipped = [
            f"{count} {what}"
            for count, what in (
                (self.binary, "binary"),
                (self.too_large, f"larger than {MAX_FILE_BYTES >> 20} MiB"),
                (self.unreadable, "not readable"),
                (self.withheld, "withheld"),
            )
            if count
        ]
        files = "1 file" if self.searched == 1 else f"{self.searched} files"
        return f"{files} searched" + (f"; skipped: {', '.join(skipped)}" if skipped else "")


@dataclass(frozen=True, slots=True)
class MatchingLine:
    """A matching line; line numbers start at 1."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSearch:
    """One search: the files, the pattern and the counts."""

    files: Files
    pattern: Pattern
    only: PathPatterns | None = None
    """Patterns that a file's path must match."""
    counts: SearchCounts = field(default_factory=SearchCounts)

    async def search_folder(self, folder: str) -> AsyncGenerator[MatchingLine]:
        """Yield the matching lines in a directory and below, in path order."""
        ignoring = await self._read_parent_rules(folder)
        pending: list[tuple[str, IgnoreRules]] = [(folder, ignoring)]
        folders = 0
        while pending:
            here, above = pending.pop()
            folders += 1
            if folders > MAX_FOLDERS or self.counts.searched >= MAX_FILES:
                self.counts.is_complete = False
                return
            entries = await self._entries(here)
            ignoring = above.extend(here, await self._ignore_texts(entries))
            kept = [e for e in entries if not ignoring.is_ignored(e.path, is_folder=e.kind == "folder")]
            self.counts.withheld += sum(entry.kind == "withheld" for entry in kept)
            for entry in kept:
                if entry.kind == "file" and (
                    self.only is None or self.only.check_file(replace_surrogates(entry.path)).include
                ):
                    for found in await self.search_file(entry.path, entry.size_bytes):
                        yield found
            folders_here = [entry for entry in kept if entry.kind == "folder"]
            pending += [(entry.path, ignoring) for entry in reversed(folders_here)]

    async def search_file(self, path: str, size_bytes: int) -> list[MatchingLine]:
        """Return the matching lines of one file."""
        if size_bytes > MAX_FILE_BYTES:
            self.counts.too_large += 1
            return []
        try:
            text = decode_text(await self.files.read_bytes(path))
        except (CapabilityError, FileAccessError):  # deleted meanwhile, or not accessible
            self.counts.unreadable += 1
            return []
        if text is None:
            self.counts.binary += 1
            return []
        self.counts.searched += 1
        return [MatchingLine(path, line, shown) for line, shown in find_matches(self.pattern, text.text.encode())]

    async def _entries(self, folder: str) -> list[DirEntry]:
        try:
            return sorted(await self.files.list(folder), key=lambda entry: entry.name)
        except (CapabilityError, FileAccessError):
            self.counts.unreadable += 1
            return []

    async def _read_parent_rules(self, folder: str) -> IgnoreRules:
        """Return the rules of the parent directories; none if they ignore `folder`, which was requested explicitly."""
        names = [name for name in folder.split("/") if name not in ("", ".")]
        ignoring, here = IgnoreRules(), "."
        for name in names:
            listed = await self._above(here)
            ignoring = ignoring.extend(here, await self._ignore_texts(listed))
            here = name if here == "." else f"{here}/{name}"
            if ignoring.is_ignored(here, is_folder=True):
                return IgnoreRules()
        return ignoring

    async def _above(self, folder: str) -> list[DirEntry]:
        try:
            return await self.files.list(folder)
        except (CapabilityError, FileAccessError):  # inaccessible directories have no rules
            return []

    async def _ignore_texts(self, entries: list[DirEntry]) -> dict[str, str]:
        texts: dict[str, str] = {}
        for entry in entries:
            if entry.name in IGNORE_FILES and entry.kind == "file" and entry.size_bytes <= _MAX_IGNORE_FILE_BYTES:
                try:
                    texts[entry.name] = (await self.files.read_bytes(entry.path)).decode("utf-8", "replace")
                except (CapabilityError, FileAccessError):
                    continue
        return texts


def find_matches(pattern: Pattern, data: bytes) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and text of each line of UTF-8 data that contains a match."""
    at, line, counted = 0, 1, 0
    while at <= len(data):
        if pattern.is_line_by_line:
            start, end = at, _find_line_end(data, at)
            place = pattern.find(data[start:end], 0, end - start)
            found = None if place is None else start + place
            if found is None:
                at = end + 1
                continue
        else:
            found = pattern.find(data, at, len(data))
            if found is None:
                return
        start, end = data.rfind(b"\n", 0, found) + 1, _find_line_end(data, found)
        line += data.count(b"\n", counted, start)
        counted = start
        if start < len(data):  # a final newline does not start another line
            yield line, _excerpt(data[start:end].decode(), found - start)
        at = end + 1


def _find_line_end(data: bytes, at: int) -> int:
    end = data.find(b"\n", at)
    return len(data) if end < 0 else end


def _excerpt(line: str, found: int) -> str:
    line = line.rstrip("\r")
    if len(line) <= MAX_LINE_CHARS:
        return line
    # `found` counts bytes; convert it to characters.
    start = max(
        0, min(len(line.encode()[:found].decode("utf-8", "ignore")) - _BEFORE_CHARS, len(line) - MAX_LINE_CHARS)
    )
    end = start + MAX_LINE_CHARS
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


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
    """Search the lines of text files for a regular expression. Returns "path:line: text", one line for each hit.

    Files that .gitignore or .ignore exclude, binary files and .git are skipped. The syntax is RE2: no look-around,
    no back-references; escape ( ) [ ] { } . * + ? | with a backslash to match them literally.

    Args:
        pattern: For example "def \\w+_reducer" or "TODO".
        path: The folder or file to search, relative to the workspace.
        glob: Only files whose path matches, such as "*.py" or "src/**/*.ts".
        limit: The maximum number of hits.
        ignore_case: Whether to ignore upper and lower case.
    """
    files = ctx.files
    compiled = compile_pattern(pattern, "i" if ignore_case else "")
    search = FileSearch(files=files, pattern=compiled, only=None if glob is None else compile_patterns([glob]))
    stat = await files.stat(path)
    if stat is None:
        raise FileAccessError(f"{shown(path)} does not exist; list_dir shows what exists", path=path, reason="missing")
    found: list[MatchingLine] = []
    if stat.kind == "folder":
        async with aclosing(search.search_folder(path)) as hits:
            async for hit in hits:
                found.append(hit)
                if len(found) > limit:
                    break
    else:
        found = await search.search_file(path, stat.size_bytes)
    return _build_result(found, limit, search)


def _build_result(found: list[MatchingLine], limit: int, search: FileSearch) -> Ok:
    lines = [f"{to_printable(hit.path)}:{hit.line}: {hit.text}" for hit in found[:limit]]
    is_cut = len(found) > limit
    if is_cut:
        lines.append(f"[stopped after {limit} hits; narrow the search with path or glob, or raise limit]")
    elif not search.counts.is_complete:
        lines.append(f"[stopped, there are too many files; narrow the search with path. {search.counts.describe()}]")
    elif not found:
        lines.append(f"No hits. {search.counts.describe()}.")
    hits = [{"path": to_printable(hit.path), "line": hit.line} for hit in found[:limit]]
    return Ok("\n".join(lines), structured={"hits": hits, "is_complete": not is_cut and search.counts.is_complete})
