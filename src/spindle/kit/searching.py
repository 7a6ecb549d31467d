"""Finding lines in many files: a walk that respects ignore files, and a search that never takes for ever."""

from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field

from spindle.artifacts.pattern import Pattern
from spindle.capabilities.files import DirEntry, Files
from spindle.errors import CapabilityError, FileAccessError
from spindle.kit.ignoring import IGNORE_FILES, Ignoring, Spec, comparable
from spindle.kit.text_files import decoded

MAX_FILE_BYTES = 4 << 20
MAX_FILES = 50_000
MAX_FOLDERS = 20_000
MAX_LINE_CHARS = 300
_BEFORE_CHARS = 80
_MAX_IGNORE_FILE_BYTES = 1 << 20


@dataclass(slots=True)
class Counts:
    """What became of the files of a search."""

    searched: int = 0
    binary: int = 0
    too_large: int = 0
    unreadable: int = 0
    is_complete: bool = True
    """Whether the walk came to its end."""

    def told(self) -> str:
        """Say what was looked at, and what was not."""
        skipped = [
            f"{count} {what}"
            for count, what in (
                (self.binary, "binary"),
                (self.too_large, f"larger than {MAX_FILE_BYTES >> 20} MiB"),
                (self.unreadable, "not readable"),
            )
            if count
        ]
        files = "1 file" if self.searched == 1 else f"{self.searched} files"
        return f"{files} searched" + (f"; skipped: {', '.join(skipped)}" if skipped else "")


@dataclass(frozen=True, slots=True)
class Found:
    """A line in which the pattern occurs, counted from 1."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """One search: which files, and what for."""

    files: Files
    pattern: Pattern
    only: Spec | None = None
    """Patterns a file's path must fit."""
    counts: Counts = field(default_factory=Counts)

    async def below(self, folder: str) -> AsyncGenerator[Found]:
        """Give the lines found in a folder and below it, in the order of the paths."""
        ignoring = await self._ignoring_above(folder)
        pending: list[tuple[str, Ignoring]] = [(folder, ignoring)]
        folders = 0
        while pending:
            here, above = pending.pop()
            folders += 1
            if folders > MAX_FOLDERS or self.counts.searched >= MAX_FILES:
                self.counts.is_complete = False
                return
            entries = await self._entries(here)
            ignoring = above.below(here, await self._ignore_texts(entries))
            kept = [e for e in entries if not ignoring.leaves_out(e.path, is_folder=e.kind == "folder")]
            for entry in kept:
                if entry.kind == "file" and (self.only is None or self.only.check_file(comparable(entry.path)).include):
                    for found in await self.inside(entry.path, entry.size_bytes):
                        yield found
            folders_here = [entry for entry in kept if entry.kind == "folder"]
            pending += [(entry.path, ignoring) for entry in reversed(folders_here)]

    async def inside(self, path: str, size_bytes: int) -> list[Found]:
        """Give the lines found in one file."""
        if size_bytes > MAX_FILE_BYTES:
            self.counts.too_large += 1
            return []
        try:
            text = decoded(await self.files.read_bytes(path))
        except (CapabilityError, FileAccessError):  # gone meanwhile, or not for us
            self.counts.unreadable += 1
            return []
        if text is None:
            self.counts.binary += 1
            return []
        self.counts.searched += 1
        return [Found(path, line, shown) for line, shown in matches(self.pattern, text.text.encode())]

    async def _entries(self, folder: str) -> list[DirEntry]:
        try:
            return sorted(await self.files.list(folder), key=lambda entry: entry.name)
        except (CapabilityError, FileAccessError):
            self.counts.unreadable += 1
            return []

    async def _ignoring_above(self, folder: str) -> Ignoring:
        """Collect the rules of the folders above; where they would leave out the folder itself, it was asked for."""
        names = [name for name in folder.split("/") if name not in ("", ".")]
        ignoring, here = Ignoring(), "."
        for name in names:
            listed = await self._above(here)
            ignoring = ignoring.below(here, await self._ignore_texts(listed))
            here = name if here == "." else f"{here}/{name}"
            if ignoring.leaves_out(here, is_folder=True):
                return Ignoring()
        return ignoring

    async def _above(self, folder: str) -> list[DirEntry]:
        try:
            return await self.files.list(folder)
        except (CapabilityError, FileAccessError):  # what is out of reach has no say
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


def matches(pattern: Pattern, data: bytes) -> Iterator[tuple[int, str]]:
    """Give the lines of valid UTF-8 that hold a match, with their numbers counted from 1."""
    at, line, counted = 0, 1, 0
    while at <= len(data):
        if pattern.is_line_by_line:
            start, end = at, _end_of(data, at)
            place = pattern.find(data[start:end], 0, end - start)
            found = None if place is None else start + place
            if found is None:
                at = end + 1
                continue
        else:
            found = pattern.find(data, at, len(data))
            if found is None:
                return
        start, end = data.rfind(b"\n", 0, found) + 1, _end_of(data, found)
        line += data.count(b"\n", counted, start)
        counted = start
        if start < len(data):  # a last newline begins no further line
            yield line, _excerpt(data[start:end].decode(), found - start)
        at = end + 1


def _end_of(data: bytes, at: int) -> int:
    end = data.find(b"\n", at)
    return len(data) if end < 0 else end


def _excerpt(line: str, found: int) -> str:
    line = line.rstrip("\r")
    if len(line) <= MAX_LINE_CHARS:
        return line
    # `found` counts bytes: at worst the excerpt begins a little later than it might.
    start = max(
        0, min(len(line.encode()[:found].decode("utf-8", "ignore")) - _BEFORE_CHARS, len(line) - MAX_LINE_CHARS)
    )
    end = start + MAX_LINE_CHARS
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
