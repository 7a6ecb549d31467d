"""What each session has read, so that it does not overwrite what it has not seen. No I/O."""

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from threading import Lock
from typing import TypeAlias

from spindle.capabilities.files import Names

SessionFile: TypeAlias = tuple[str, Names]
"""A session's id, and the file."""

MAX_FILES = 50_000
"""Of how many files the last reading is remembered; beyond that the oldest count as never read."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A file's content, as far as telling it from another goes."""

    size_bytes: int
    digest: bytes

    @classmethod
    def of(cls, data: bytes) -> "Seen":
        """Describe `data`."""
        return cls(len(data), blake2b(data, digest_size=16).digest())


NOTHING = Seen(-1, b"")
"""Where somebody read, no file was."""


class SeenFiles:
    """The last reading of each file in each session; safe to use from several threads."""

    def __init__(self, max_files: int = MAX_FILES) -> None:
        self._max_files = max_files
        self._lock = Lock()
        self._clock = count(1)
        self._notes: OrderedDict[SessionFile, tuple[int, Seen]] = OrderedDict()

    def begin(self) -> int:
        """Give the moment at which a reading begins."""
        with self._lock:
            return next(self._clock)

    def last(self, file: SessionFile) -> Seen | None:
        """Give what the session saw last, or `None` if it never read the file."""
        with self._lock:
            note = self._notes.get(file)
            return None if note is None else note[1]

    def read(self, file: SessionFile, seen: Seen, *, began: int) -> None:
        """Note what was read, unless the session itself wrote the file since the reading began."""
        with self._lock:
            noted_at, _ = self._notes.get(file, (0, NOTHING))
            if noted_at <= began:
                self._note(file, began, seen)

    def wrote(self, file: SessionFile, seen: Seen) -> None:
        """Note what the session wrote, if it had read the file; one never read stays free to be overwritten."""
        with self._lock:
            if file in self._notes:
                self._note(file, next(self._clock), seen)

    def _note(self, file: SessionFile, at: int, seen: Seen) -> None:
        self._notes[file] = (at, seen)
        self._notes.move_to_end(file)
        if len(self._notes) > self._max_files:
            self._notes.popitem(last=False)
