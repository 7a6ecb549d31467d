"""Paths of the files capability: parsing, access checks, the handle's protocol and tracking of reads. No I/O."""

import os
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from itertools import count
from threading import Lock
from typing import Literal, Protocol, TypeAlias

from spindle.capabilities.withheld import WithheldPaths
from spindle.errors import CapabilityError, PathNotReachableError
from spindle.text import shorten

Names: TypeAlias = tuple[str, ...]
"""The parts of a path, relative to the backend's root; no part is empty, `.` or `..`."""
FileKind: TypeAlias = Literal["file", "folder", "symlink", "other", "withheld"]
Access: TypeAlias = Literal["read", "write"]

MAX_PATH_BYTES = 4095
MAX_NAME_BYTES = 255
DRAFT_PREFIX, DRAFT_SUFFIX = ".spindle-", ".draft"
"""The names of temporary files while they are written; reserved for the backend."""

_SHOWN_CHARS = 200
_SHOWN_PLACES = 20
# Control characters and bidirectional marks, which make a name look different from what it is.
_DECEPTIVE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


@dataclass(frozen=True, kw_only=True, slots=True)
class FileStat:
    """The status of a file or folder."""

    path: str
    kind: FileKind
    size_bytes: int
    modified_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class DirEntry:
    """An entry of a folder; symlinks, devices and withheld files are listed, but cannot be opened."""

    name: str
    """Bytes that are not UTF-8 are decoded to lone surrogates (`surrogateescape`)."""
    path: str
    """The path relative to the backend's root."""
    kind: FileKind
    """`withheld` for a file or folder that no grant opens, such as `.ssh`; its size is 0 then."""
    size_bytes: int
    modified_at: datetime


Entries: TypeAlias = list[DirEntry]
"""An alias of `list[DirEntry]`, because the method `Files.list` shadows the builtin inside its class."""


class Files(Protocol):
    """The files handle of a call, available to the tool as `ctx.files`; paths are relative to the backend's root."""

    async def read_text(self, path: str, *, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the text of a file."""
        ...

    async def read_bytes(self, path: str) -> bytes:
        """Return the bytes of a file."""
        ...

    async def write_text(self, path: str, text: str, *, encoding: str = "utf-8", errors: str = "strict") -> None:
        """Create or replace a file with text."""
        ...

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Create or replace a file with bytes."""
        ...

    async def stat(self, path: str) -> FileStat | None:
        """Return the status of a file or folder, or None if it does not exist."""
        ...

    async def exists(self, path: str) -> bool:
        """Return True if a file or folder exists."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file or an empty folder."""
        ...

    async def make_dir(self, path: str) -> None:
        """Create a folder and its parents."""
        ...

    async def list(self, path: str = ".") -> Entries:
        """List a folder; a folder that does not exist yields an empty list."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """A parsed path below the root, with the text the caller passed."""

    given: str
    names: Names
    is_folder: bool = False
    """Whether the given text ends with a slash."""
    reach: "OneWay | None" = None
    """The allowed paths, which are listed in refusals."""

    @property
    def shown(self) -> str:
        """The given path, quoted for a message."""
        return shown(self.given)

    def refused(self, why: str) -> PathNotReachableError:
        """Build the error for a path that is not allowed."""
        reach = "" if self.reach is None else f". {self.reach}"
        return PathNotReachableError(f"{self.shown} is not reachable: {why}{reach}", path=self.given)


def shown(path: object) -> str:
    """Quote a path for a message, on one line and truncated."""
    return shorten(repr(path), _SHOWN_CHARS)  # repr escapes invisible characters and bidirectional marks


def parse_path(path: str | os.PathLike[str], reach: "OneWay | None" = None) -> Place:
    """Parse a path without accessing the disk.

    Raises:
        PathNotReachableError: The path is absolute, contains `..`, or is invalid.
    """
    given = path if isinstance(path, str) else _from_pathlike(path)
    names = tuple(part for part in given.split("/") if part not in {"", "."})
    place = Place(given, names, given.endswith("/"), reach)
    why = _find_path_problem(given, place.names)
    if why is not None:
        raise place.refused(why)
    return place


def _from_pathlike(path: os.PathLike[str]) -> str:
    try:
        given = os.fspath(path)
    except TypeError:
        given = None
    if not isinstance(given, str):
        raise PathNotReachableError(f"expected a path (str or Path), got {shown(path)}", path=shown(path))
    return given


def _find_path_problem(given: str, names: Names) -> str | None:
    if not given:
        return "it is empty; use '.' for the root"
    if "\0" in given:
        return "a path cannot contain a NUL character"
    if given.startswith("/"):
        return "it is absolute; use a path relative to the root"
    if ".." in names:
        return "'..' is not allowed; use the path from the root"
    try:
        sizes = [len(name.encode("utf-8", "surrogateescape")) for name in names]
    except UnicodeEncodeError:
        return "it contains a lone surrogate"
    if max(sizes, default=0) > MAX_NAME_BYTES:
        return f"one of its names is longer than {MAX_NAME_BYTES} bytes"
    if sum(sizes) + len(sizes) > MAX_PATH_BYTES:
        return f"it is longer than {MAX_PATH_BYTES} bytes"
    if any(is_draft(name) for name in names):
        return f"names like '{DRAFT_PREFIX}…{DRAFT_SUFFIX}' are reserved for files that are being written"
    return None


def is_draft(name: str) -> bool:
    """Return True if a name is that of a temporary file."""
    return name.startswith(DRAFT_PREFIX) and name.endswith(DRAFT_SUFFIX)


def check_new_names(place: Place) -> None:
    """Check that the names of a path to be created are not deceptive.

    Raises:
        PathNotReachableError: A name contains control characters or bidirectional marks.
    """
    if any(_DECEPTIVE.search(name) for name in place.names):
        raise place.refused("a new name may not contain control characters or bidirectional marks")


@dataclass(frozen=True, slots=True, init=False)
class Places:
    """A set of folders and files, with everything below them."""

    tops: tuple[Names, ...]

    def __init__(self, paths: Iterable[str], *, what: str) -> None:
        """Parse the paths.

        Raises:
            CapabilityError: A path is invalid or outside the root.
        """
        if isinstance(paths, (str, bytes, Mapping)):
            raise CapabilityError(f"{what}: expected a list of paths, got {paths!r}; write [{paths!r}]", field="files")
        object.__setattr__(self, "tops", tuple(dict.fromkeys(parse_path(path).names for path in paths)))

    def covers(self, names: Names) -> bool:
        """Return True if `names` is one of these paths or below one."""
        return any(names[: len(top)] == top for top in self.tops)

    def within(self, others: "Places") -> Iterable[Names]:
        """Yield the topmost paths that both sets cover."""
        for mine in self.tops:
            for other in others.tops:
                deep, high = (mine, other) if len(mine) >= len(other) else (other, mine)
                if deep[: len(high)] == high:
                    yield deep


@dataclass(frozen=True, slots=True)
class OneWay:
    """The paths a call may read, or those it may write: declared by the tool and granted by the caller."""

    access: Access
    declared: Places
    granted: Places
    withheld: WithheldPaths | None = None

    def judge(self, path: str) -> Place:
        """Parse a path and check that it is declared and granted; the disk is not accessed.

        Raises:
            PathNotReachableError: The path is invalid, not declared, not granted or withheld.
        """
        place = parse_path(path, self)
        for whose, places in (("declared by this tool", self.declared), ("granted by the caller", self.granted)):
            if not places.covers(place.names):
                raise place.refused(f"{self.access} access was not {whose}")
        reason = None if self.withheld is None else self.withheld.find_reason(place.names)
        if reason is not None:
            raise place.refused(reason)
        return place

    def __str__(self) -> str:
        tops = sorted({"/".join(top) or "." for top in self.declared.within(self.granted)})
        if not tops:
            return f"This tool can {self.access} nothing here."
        more = f" and {len(tops) - _SHOWN_PLACES} more" if len(tops) > _SHOWN_PLACES else ""
        return f"It can {self.access}: {', '.join(shown(top) for top in tops[:_SHOWN_PLACES])}{more}."


SessionFile: TypeAlias = tuple[str, Names]
"""A session id and the path of a file."""

MAX_FILES = 50_000
"""The number of files whose last read is remembered; beyond that, the oldest count as never read."""


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A fingerprint of a file's content."""

    size_bytes: int
    digest: bytes

    @classmethod
    def of(cls, data: bytes) -> "FileVersion":
        """Return the version of `data`."""
        return cls(len(data), blake2b(data, digest_size=16).digest())


NOTHING = FileVersion(-1, b"")
"""The version of a file that does not exist."""


class ReadTracker:
    """The last version of each file that each session has read or written; thread-safe."""

    def __init__(self, max_files: int = MAX_FILES) -> None:
        self._max_files = max_files
        self._lock = Lock()
        self._clock = count(1)
        self._versions: OrderedDict[SessionFile, tuple[int, FileVersion]] = OrderedDict()

    def begin(self) -> int:
        """Return the logical time at which a read begins."""
        with self._lock:
            return next(self._clock)

    def get_last_version(self, file: SessionFile) -> FileVersion | None:
        """Return the version the session saw last, or None if it never read the file."""
        with self._lock:
            note = self._versions.get(file)
            return None if note is None else note[1]

    def record_read(self, file: SessionFile, seen: FileVersion, *, began: int) -> None:
        """Record a read version, unless the session itself has written the file since the read began."""
        with self._lock:
            noted_at, _ = self._versions.get(file, (0, NOTHING))
            if noted_at <= began:
                self._record(file, began, seen)

    def record_write(self, file: SessionFile, seen: FileVersion) -> None:
        """Record a written version if the session has read the file; an unread file may still be overwritten."""
        with self._lock:
            if file in self._versions:
                self._record(file, next(self._clock), seen)

    def _record(self, file: SessionFile, at: int, seen: FileVersion) -> None:
        self._versions[file] = (at, seen)
        self._versions.move_to_end(file)
        if len(self._versions) > self._max_files:
            self._versions.popitem(last=False)
