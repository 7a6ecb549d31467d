"""What can be done to files below one root. It blocks; `files.py` calls it from threads."""

import os
import secrets
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock

from spindle.capabilities.files.backend_open import (
    MayMake,
    folder_at,
    look,
    not_possible,
    open_file,
    read_up_to,
    translate_os_errors,
)
from spindle.capabilities.files.paths import (
    DRAFT_PREFIX,
    DRAFT_SUFFIX,
    NOTHING,
    DirEntry,
    Entries,
    FileKind,
    FileStat,
    FileVersion,
    Place,
    ReadTracker,
    SessionFile,
    check_new_names,
    is_draft,
)
from spindle.errors import FileAccessError, FileMissingError, StaleWriteError

_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ACCESS_LIST = "system.posix_acl_access"
# A few locks for all files: two writers of one file meet at the same one, whichever backend they came through.
_LOCKS = tuple(Lock() for _ in range(64))


@contextmanager
def one_writer(folder: int, name: str) -> Generator[None]:
    """Keep other writers of this process away from one name of a folder."""
    info = os.fstat(folder)
    with _LOCKS[hash((info.st_dev, info.st_ino, name)) % len(_LOCKS)]:
        yield


@contextmanager
def drafted(folder: int, data: bytes, *, old: int | None) -> Generator[str]:
    """Write `data` under a name of its own, safe on the disk, with the permissions of the open file `old`.

    The draft is to be renamed into place; one that was not is removed.
    """
    name = f"{DRAFT_PREFIX}{secrets.token_hex(12)}{DRAFT_SUFFIX}"
    # Until it has the old file's permissions nobody else may look into it.
    fd = os.open(name, _DRAFT, 0o666 if old is None else 0o600, dir_fd=folder)
    try:
        try:
            _write_fully(fd, data)
            if old is not None:
                _keep_permissions(fd, old)
            os.fsync(fd)
        finally:
            os.close(fd)
        yield name
    finally:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)


def put_in_place(folder: int, draft: str, name: str) -> None:
    """Give a draft its name, replacing what had it, and make that last."""
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def _write_fully(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def _keep_permissions(fd: int, old: int) -> None:
    was, now = os.fstat(old), os.fstat(fd)
    mode = stat.S_IMODE(was.st_mode) & 0o777  # writing to a program takes its set-user-id away, and so do we
    if was.st_uid != now.st_uid:
        with suppress(PermissionError):
            os.fchown(fd, was.st_uid, -1)
    if was.st_gid != now.st_gid:
        try:
            os.fchown(fd, -1, was.st_gid)
        except PermissionError:
            # What its group was allowed, ours is not: it gets what everybody gets.
            mode = mode & 0o707 | (mode & 0o007) << 3
    os.fchmod(fd, mode)
    if hasattr(os, "getxattr"):
        with suppress(OSError):  # most files have no access list, and some disks know none
            os.setxattr(fd, _ACCESS_LIST, os.getxattr(old, _ACCESS_LIST))


@dataclass(frozen=True, kw_only=True, slots=True)
class Disk:
    """The files below an open folder."""

    root: int
    max_file_bytes: int
    max_entries: int
    hard_links: bool

    def read(self, place: Place) -> bytes:
        """Give a file's bytes.

        Raises:
            FileMissingError: It is not there.
            FileAccessError: It is no file, or too large.
        """
        self._must_be_file(place)
        with translate_os_errors(place), folder_at(self.root, place, place.names[:-1]) as folder:
            return self._content(folder, place)

    def write(
        self, place: Place, data: bytes, *, may_make: MayMake, memory: ReadTracker, session_file: SessionFile
    ) -> None:
        """Put `data` in the place of a file, or make it, all or nothing.

        Raises:
            StaleWriteError: The session read it, and it is another by now.
            FileAccessError: It is no file, too large, or not to be written.
        """
        self._must_be_file(place)
        self._check_size(place, len(data))
        with translate_os_errors(place), folder_at(self.root, place, place.names[:-1], may_make=may_make) as folder:
            # Replacing a name asks for no right on the file itself, so that right is asked for here.
            old = open_file(folder, place, os.O_WRONLY, hard_links=self.hard_links)
            try:
                if old is None:
                    check_new_names(place)
                with drafted(folder, data, old=old) as draft, one_writer(folder, place.names[-1]):
                    self._check_fresh(folder, place, memory.last(session_file))
                    put_in_place(folder, draft, place.names[-1])
                    memory.wrote(session_file, FileVersion.of(data))
            finally:
                if old is not None:
                    os.close(old)

    def remove(self, place: Place, *, memory: ReadTracker, session_file: SessionFile) -> None:
        """Remove a file, or a folder that is empty.

        Raises:
            StaleWriteError: The session read it, and it is another by now.
            FileMissingError: Nothing is there.
        """
        if not place.names:
            raise place.refused("the root cannot be removed")
        name = place.names[-1]
        with (
            translate_os_errors(place),
            folder_at(self.root, place, place.names[:-1]) as folder,
            one_writer(folder, name),
        ):
            seen = memory.last(session_file)
            info = look(folder, place, hard_links=self.hard_links)
            if info is not None and stat.S_ISDIR(info.st_mode):
                os.rmdir(name, dir_fd=folder)
            else:
                if info is not None and place.is_folder:
                    raise not_possible(place, "not_a_folder", "it is a file; leave out the last slash")
                self._check_fresh(folder, place, seen)
                os.unlink(name, dir_fd=folder)
            os.fsync(folder)
            memory.wrote(session_file, NOTHING)

    def stat(self, place: Place) -> FileStat | None:
        """Look at a file or folder; `None` if nothing is there."""
        try:
            with translate_os_errors(place), folder_at(self.root, place, place.names[:-1]) as folder:
                info = look(folder, place, hard_links=self.hard_links) if place.names else os.fstat(folder)
        except FileMissingError:
            return None
        except FileAccessError as error:
            if error.reason == "not_a_folder":  # nothing can be below a file
                return None
            raise
        if info is None or (place.is_folder and not stat.S_ISDIR(info.st_mode)):
            return None
        path = "/".join(place.names) or "."
        return FileStat(path=path, kind=_kind(info), size_bytes=info.st_size, modified_at=_modified(info))

    def entries(self, place: Place) -> Entries:
        """List a folder by name; one that is not there is empty."""
        try:
            with (
                translate_os_errors(place),
                folder_at(self.root, place, place.names) as folder,
                os.scandir(folder) as found,
            ):
                return sorted(self._entries(found, place), key=lambda entry: entry.name)
        except FileMissingError:
            return []

    def make_folder(self, place: Place, *, may_make: MayMake) -> None:
        """Make a folder and those above it; one that is there is left as it is."""
        if self.stat(place) is None:
            check_new_names(place)
        with translate_os_errors(place), folder_at(self.root, place, place.names, may_make=may_make):
            pass

    def _entries(self, found: Iterable[os.DirEntry[str]], place: Place) -> list[DirEntry]:
        entries: list[DirEntry] = []
        for item in found:
            if is_draft(item.name):
                continue
            if len(entries) == self.max_entries:
                raise not_possible(place, "too_large", f"it holds more than {self.max_entries} entries")
            try:
                info = item.stat(follow_symlinks=False)
            except FileNotFoundError:  # removed since
                continue
            path = "/".join((*place.names, item.name))
            facts = DirEntry(
                name=item.name, path=path, kind=_kind(info), size_bytes=info.st_size, modified_at=_modified(info)
            )
            entries.append(facts)
        return entries

    def _content(self, folder: int, place: Place) -> bytes:
        fd = open_file(folder, place, os.O_RDONLY, hard_links=self.hard_links)
        if fd is None:
            raise FileMissingError(f"{place.shown} does not exist", path=place.given)
        try:
            self._check_size(place, os.fstat(fd).st_size)
            data = read_up_to(fd, self.max_file_bytes + 1)
        finally:
            os.close(fd)
        self._check_size(place, len(data))  # it may have grown
        return data

    def _check_fresh(self, folder: int, place: Place, seen: FileVersion | None) -> None:
        if seen is None:
            return
        info = look(folder, place, hard_links=self.hard_links)
        if info is None and seen is NOTHING:
            return
        if info is None:
            raise _stale(place, "was removed")
        if seen is NOTHING:
            raise _stale(place, "was made by somebody else")
        if info.st_size != seen.size_bytes or FileVersion.of(self._content(folder, place)) != seen:
            raise _stale(place, "was changed")

    def _check_size(self, place: Place, size_bytes: int) -> None:
        if size_bytes > self.max_file_bytes:
            raise not_possible(
                place, "too_large", f"{size_bytes} bytes are more than the {self.max_file_bytes} allowed"
            )

    @staticmethod
    def _must_be_file(place: Place) -> None:
        if not place.names or place.is_folder:
            raise not_possible(place, "not_a_file", "it names a folder; give the path of a file, without a last slash")


def _stale(place: Place, what: str) -> StaleWriteError:
    return StaleWriteError(
        f"{place.shown} {what} since it was read in this session; read it again, then decide what to write",
        path=place.given,
    )


def _kind(info: os.stat_result) -> FileKind:
    if stat.S_ISREG(info.st_mode):
        return "file"
    if stat.S_ISDIR(info.st_mode):
        return "folder"
    return "symlink" if stat.S_ISLNK(info.st_mode) else "other"


def _modified(info: os.stat_result) -> datetime:
    try:
        return datetime.fromtimestamp(info.st_mtime, UTC)
    except (OverflowError, ValueError, OSError):  # a disk can hold years that a datetime cannot
        return datetime.fromtimestamp(0, UTC)
