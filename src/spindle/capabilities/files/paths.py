"""The files capability: which paths a call may reach, and what it is told of them. No I/O."""

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

from spindle.errors import CapabilityError, PathNotReachableError

Names: TypeAlias = tuple[str, ...]
"""A path in parts, from the backend's root down; no part is empty, `.` or `..`."""
FileKind: TypeAlias = Literal["file", "folder", "symlink", "other"]
Access: TypeAlias = Literal["read", "write"]

MAX_PATH_BYTES = 4095
MAX_NAME_BYTES = 255
DRAFT_PREFIX, DRAFT_SUFFIX = ".spindle-", ".draft"
"""What a file is called while it is being written; such names belong to the backend."""

_SHOWN_CHARS = 200
_SHOWN_PLACES = 20
# Controls, and the marks that turn the reading direction: a name with them does not look like what it is.
_DECEPTIVE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


@dataclass(frozen=True, kw_only=True, slots=True)
class FileStat:
    """A file or folder, as it was when it was looked at."""

    path: str
    kind: FileKind
    size_bytes: int
    modified_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class DirEntry:
    """What a folder holds under one name; symlinks and devices are shown, but cannot be opened."""

    name: str
    """Bytes that are no UTF-8 are given as lone surrogates (`surrogateescape`)."""
    path: str
    """From the backend's root, ready to be read."""
    kind: FileKind
    size_bytes: int
    modified_at: datetime


Entries: TypeAlias = list[DirEntry]
"""`Files.list` hides the builtin inside its class."""


class Files(Protocol):
    """What `ctx.files` is; paths are relative to the backend's root."""

    async def read_text(self, path: str, *, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Give a file's text."""
        ...

    async def read_bytes(self, path: str) -> bytes:
        """Give a file's bytes."""
        ...

    async def write_text(self, path: str, text: str, *, encoding: str = "utf-8", errors: str = "strict") -> None:
        """Put text in the place of a file, or make it."""
        ...

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Put bytes in the place of a file, or make it."""
        ...

    async def stat(self, path: str) -> FileStat | None:
        """Look at a file or folder; `None` if nothing is there."""
        ...

    async def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder that is empty."""
        ...

    async def make_dir(self, path: str) -> None:
        """Make a folder and those above it."""
        ...

    async def list(self, path: str = ".") -> Entries:
        """List a folder; one that does not exist is empty."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """A path that stays below the root, and what it was called by whoever asked."""

    given: str
    names: Names
    is_folder: bool = False
    """Whether it was written with a slash at its end."""
    reach: "OneWay | None" = None
    """What the call can reach, for whoever is refused."""

    @property
    def shown(self) -> str:
        """The path as it was given, fit for a message."""
        return shown(self.given)

    def refused(self, why: str) -> PathNotReachableError:
        """Make the error that says why this path is out of reach."""
        reach = "" if self.reach is None else f". {self.reach}"
        return PathNotReachableError(f"{self.shown} is not reachable: {why}{reach}", path=self.given)


def shown(path: object) -> str:
    """Quote a path for a message: on one line, and not too long."""
    text = repr(path)  # which escapes whatever does not show, or would turn the reading direction
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def parse_path(path: str | os.PathLike[str], reach: "OneWay | None" = None) -> Place:
    """Take a path apart without looking at the disk.

    Raises:
        PathNotReachableError: It is absolute, climbs with `..`, or cannot be a path.
    """
    given = path if isinstance(path, str) else _from_pathlike(path)
    names = tuple(part for part in given.split("/") if part not in {"", "."})
    place = Place(given, names, given.endswith("/"), reach)
    why = _why_no_path(given, place.names)
    if why is not None:
        raise place.refused(why)
    return place


def _from_pathlike(path: os.PathLike[str]) -> str:
    try:
        given = os.fspath(path)
    except TypeError:
        given = None
    if not isinstance(given, str):
        raise PathNotReachableError(f"expected a path as text, got {shown(path)}", path=shown(path))
    return given


def _why_no_path(given: str, names: Names) -> str | None:
    if not given:
        return "it is empty; '.' is the root"
    if "\0" in given:
        return "a path cannot hold a NUL character"
    if given.startswith("/"):
        return "it is absolute; give a path relative to the root"
    if ".." in names:
        return "'..' is not allowed; name the path from the root down"
    try:
        sizes = [len(name.encode("utf-8", "surrogateescape")) for name in names]
    except UnicodeEncodeError:
        return "it holds half a character (a lone surrogate)"
    if max(sizes, default=0) > MAX_NAME_BYTES:
        return f"one of its names is longer than {MAX_NAME_BYTES} bytes"
    if sum(sizes) + len(sizes) > MAX_PATH_BYTES:
        return f"it is longer than {MAX_PATH_BYTES} bytes"
    if any(is_draft(name) for name in names):
        return f"names like '{DRAFT_PREFIX}…{DRAFT_SUFFIX}' are files that are still being written"
    return None


def is_draft(name: str) -> bool:
    """Whether a name is one that files have while they are written."""
    return name.startswith(DRAFT_PREFIX) and name.endswith(DRAFT_SUFFIX)


def check_new_names(place: Place) -> None:
    """Refuse to create names that do not look like what they are.

    Raises:
        PathNotReachableError: A name holds control characters or turns the reading direction.
    """
    if any(_DECEPTIVE.search(name) for name in place.names):
        raise place.refused("a new name may hold no control characters and no marks of reading direction")


@dataclass(frozen=True, slots=True, init=False)
class Places:
    """Folders and files with all that is below them."""

    tops: tuple[Names, ...]

    def __init__(self, paths: Iterable[str], *, what: str) -> None:
        """Read the paths.

        Raises:
            CapabilityError: One of them is none, or leads out of the root.
        """
        if isinstance(paths, (str, bytes, Mapping)):
            raise CapabilityError(f"{what}: expected a list of paths, got {paths!r}; write [{paths!r}]", field="files")
        object.__setattr__(self, "tops", tuple(dict.fromkeys(parse_path(path).names for path in paths)))

    def covers(self, names: Names) -> bool:
        """Whether `names` is one of these places or below one."""
        return any(names[: len(top)] == top for top in self.tops)

    def within(self, others: "Places") -> Iterable[Names]:
        """Give the tops of what both cover."""
        for mine in self.tops:
            for other in others.tops:
                deep, high = (mine, other) if len(mine) >= len(other) else (other, mine)
                if deep[: len(high)] == high:
                    yield deep


@dataclass(frozen=True, slots=True)
class OneWay:
    """What a call may read, or what it may write: declared by the tool and granted by the caller."""

    access: Access
    declared: Places
    granted: Places

    def judge(self, path: str) -> Place:
        """Give the path in parts, if it is covered by both; the disk is not looked at.

        Raises:
            PathNotReachableError: It is not.
        """
        place = parse_path(path, self)
        for whose, places in (("declared by this tool", self.declared), ("granted by the caller", self.granted)):
            if not places.covers(place.names):
                raise place.refused(f"to {self.access} it was not {whose}")
        return place

    def __str__(self) -> str:
        tops = sorted({"/".join(top) or "." for top in self.declared.within(self.granted)})
        if not tops:
            return f"This tool can {self.access} nothing here."
        more = f" and {len(tops) - _SHOWN_PLACES} more" if len(tops) > _SHOWN_PLACES else ""
        return f"It can {self.access}: {', '.join(shown(top) for top in tops[:_SHOWN_PLACES])}{more}."


SessionFile: TypeAlias = tuple[str, Names]
"""A session's id, and the file."""

MAX_FILES = 50_000
"""Of how many files the last reading is remembered; beyond that the oldest count as never read."""


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A file's content, as far as telling it from another goes."""

    size_bytes: int
    digest: bytes

    @classmethod
    def of(cls, data: bytes) -> "FileVersion":
        """Describe `data`."""
        return cls(len(data), blake2b(data, digest_size=16).digest())


NOTHING = FileVersion(-1, b"")
"""Where somebody read, no file was."""


class ReadTracker:
    """The last reading of each file in each session; safe to use from several threads."""

    def __init__(self, max_files: int = MAX_FILES) -> None:
        self._max_files = max_files
        self._lock = Lock()
        self._clock = count(1)
        self._notes: OrderedDict[SessionFile, tuple[int, FileVersion]] = OrderedDict()

    def begin(self) -> int:
        """Give the moment at which a reading begins."""
        with self._lock:
            return next(self._clock)

    def last(self, file: SessionFile) -> FileVersion | None:
        """Give what the session saw last, or `None` if it never read the file."""
        with self._lock:
            note = self._notes.get(file)
            return None if note is None else note[1]

    def read(self, file: SessionFile, seen: FileVersion, *, began: int) -> None:
        """Note what was read, unless the session itself wrote the file since the reading began."""
        with self._lock:
            noted_at, _ = self._notes.get(file, (0, NOTHING))
            if noted_at <= began:
                self._note(file, began, seen)

    def wrote(self, file: SessionFile, seen: FileVersion) -> None:
        """Note what the session wrote, if it had read the file; one never read stays free to be overwritten."""
        with self._lock:
            if file in self._notes:
                self._note(file, next(self._clock), seen)

    def _note(self, file: SessionFile, at: int, seen: FileVersion) -> None:
        self._notes[file] = (at, seen)
        self._notes.move_to_end(file)
        if len(self._notes) > self._max_files:
            self._notes.popitem(last=False)
