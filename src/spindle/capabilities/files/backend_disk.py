"""File operations below one root, with atomic writes; they block, and `backend.py` calls them in threads."""

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
    build_access_error,
    open_file,
    open_folder,
    read_up_to,
    stat_entry,
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
from spindle.capabilities.withheld import OWN_REASON, WithheldPaths
from spindle.errors import FileAccessError, FileMissingError, StaleWriteError

_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ACCESS_LIST = "system.posix_acl_access"
# A fixed set of locks for all files: writers of one file share a lock even across backends.
_LOCKS = tuple(Lock() for _ in range(64))


@contextmanager
def lock_name(folder: int, name: str) -> Generator[None]:
    """Lock one name of a folder against other writers of this process."""
    info = os.fstat(folder)
    with _LOCKS[hash((info.st_dev, info.st_ino, name)) % len(_LOCKS)]:
        yield


@contextmanager
def write_draft(folder: int, data: bytes, *, old: int | None) -> Generator[str]:
    """Write `data` to a synced temporary file with the permissions of the open file `old`; yield its name.

    The caller renames the draft into place; a draft that was not renamed is removed.
    """
    name = f"{DRAFT_PREFIX}{secrets.token_hex(12)}{DRAFT_SUFFIX}"
    # Private until it has the old file's permissions.
    fd = os.open(name, _DRAFT, 0o666 if old is None else 0o600, dir_fd=folder)
    try:
        try:
            _write_fully(fd, data)
            if old is not None:
                _copy_permissions(fd, old)
            os.fsync(fd)
        finally:
            os.close(fd)
        yield name
    finally:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)


def commit_draft(folder: int, draft: str, name: str) -> None:
    """Rename a draft to its final name, replacing an existing file, and sync the folder."""
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def _write_fully(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def _copy_permissions(fd: int, old: int) -> None:
    was, now = os.fstat(old), os.fstat(fd)
    mode = stat.S_IMODE(was.st_mode) & 0o777  # without set-user-ID bits, which writing to a file clears too
    if was.st_uid != now.st_uid:
        with suppress(PermissionError):
            os.fchown(fd, was.st_uid, -1)
    if was.st_gid != now.st_gid:
        try:
            os.fchown(fd, -1, was.st_gid)
        except PermissionError:
            # The new group must not inherit the old group's rights: it gets those of others.
            mode = mode & 0o707 | (mode & 0o007) << 3
    os.fchmod(fd, mode)
    if hasattr(os, "getxattr"):
        with suppress(OSError):  # most files have no ACL, and some file systems do not support them
            os.setxattr(fd, _ACCESS_LIST, os.getxattr(old, _ACCESS_LIST))


@dataclass(frozen=True, kw_only=True, slots=True)
class Disk:
    """The files below an open folder."""

    root: int
    max_file_bytes: int
    max_entries: int
    hard_links: bool
    withheld: WithheldPaths

    def read(self, place: Place) -> bytes:
        """Return the bytes of a file.

        Raises:
            FileMissingError: The file does not exist.
            FileAccessError: The path is not a file, or the file is too large.
        """
        self._check_is_file_path(place)
        with translate_os_errors(place), open_folder(self.root, place, place.names[:-1]) as folder:
            return self._read_content(folder, place)

    def write(
        self, place: Place, data: bytes, *, may_make: MayMake, read_tracker: ReadTracker, session_file: SessionFile
    ) -> None:
        """Atomically create or replace a file with `data`.

        Raises:
            StaleWriteError: The file changed since the session read it.
            FileAccessError: The path is not a file, or the file is too large or not writable.
        """
        self._check_is_file_path(place)
        self._check_size(place, len(data))
        with translate_os_errors(place), open_folder(self.root, place, place.names[:-1], may_make=may_make) as folder:
            # Renaming needs no write permission on the old file, so it is checked by opening the file for writing.
            old = self._open_file(folder, place, os.O_WRONLY)
            try:
                if old is None:
                    check_new_names(place)
                with write_draft(folder, data, old=old) as draft, lock_name(folder, place.names[-1]):
                    self._check_fresh(folder, place, read_tracker.get_last_version(session_file))
                    commit_draft(folder, draft, place.names[-1])
                    read_tracker.record_write(session_file, FileVersion.of(data))
            finally:
                if old is not None:
                    os.close(old)

    def remove(self, place: Place, *, read_tracker: ReadTracker, session_file: SessionFile) -> None:
        """Remove a file or an empty folder.

        Raises:
            StaleWriteError: The file changed since the session read it.
            FileMissingError: The path does not exist.
        """
        if not place.names:
            raise place.refused("the root cannot be removed")
        name = place.names[-1]
        with (
            translate_os_errors(place),
            open_folder(self.root, place, place.names[:-1]) as folder,
            lock_name(folder, name),
        ):
            seen = read_tracker.get_last_version(session_file)
            info = self._stat_entry(folder, place)
            if info is not None and stat.S_ISDIR(info.st_mode):
                os.rmdir(name, dir_fd=folder)
            else:
                if info is not None and place.is_folder:
                    raise build_access_error(place, "not_a_folder", "it is a file; remove the trailing slash")
                self._check_fresh(folder, place, seen)
                os.unlink(name, dir_fd=folder)
            os.fsync(folder)
            read_tracker.record_write(session_file, NOTHING)

    def stat(self, place: Place) -> FileStat | None:
        """Return the status of a file or folder, or None if it does not exist."""
        try:
            with translate_os_errors(place), open_folder(self.root, place, place.names[:-1]) as folder:
                info = self._stat_entry(folder, place) if place.names else os.fstat(folder)
        except FileMissingError:
            return None
        except FileAccessError as error:
            if error.reason == "not_a_folder":  # a path below a file cannot exist
                return None
            raise
        if info is None or (place.is_folder and not stat.S_ISDIR(info.st_mode)):
            return None
        path = "/".join(place.names) or "."
        return FileStat(path=path, kind=_kind(info), size_bytes=info.st_size, modified_at=_get_modified(info))

    def list_entries(self, place: Place) -> Entries:
        """List a folder, sorted by name; a folder that does not exist yields an empty list."""
        try:
            with (
                translate_os_errors(place),
                open_folder(self.root, place, place.names) as folder,
                os.scandir(folder) as found,
            ):
                return sorted(self._entries(found, place), key=lambda entry: entry.name)
        except FileMissingError:
            return []

    def make_folder(self, place: Place, *, may_make: MayMake) -> None:
        """Create a folder and its parents; an existing folder is left unchanged."""
        if self.stat(place) is None:
            check_new_names(place)
        with translate_os_errors(place), open_folder(self.root, place, place.names, may_make=may_make):
            pass

    def _entries(self, found: Iterable[os.DirEntry[str]], place: Place) -> list[DirEntry]:
        entries: list[DirEntry] = []
        for item in found:
            if is_draft(item.name):
                continue
            if len(entries) == self.max_entries:
                raise build_access_error(place, "too_large", f"it has more than {self.max_entries} entries")
            try:
                info = item.stat(follow_symlinks=False)
            except FileNotFoundError:  # removed meanwhile
                continue
            names = (*place.names, item.name)
            is_withheld = self.withheld.find_reason(names) is not None
            facts = DirEntry(
                name=item.name,
                path="/".join(names),
                kind="withheld" if is_withheld else _kind(info),
                size_bytes=0 if is_withheld else info.st_size,
                modified_at=_get_modified(info),
            )
            entries.append(facts)
        return entries

    def _open_file(self, folder: int, place: Place, access: int) -> int | None:
        fd = open_file(folder, place, access, hard_links=self.hard_links)
        if fd is not None:
            try:
                self._check_not_own(place, os.fstat(fd))
            except BaseException:
                os.close(fd)
                raise
        return fd

    def _stat_entry(self, folder: int, place: Place) -> os.stat_result | None:
        info = stat_entry(folder, place, hard_links=self.hard_links)
        if info is not None:
            self._check_not_own(place, info)
        return info

    def _check_not_own(self, place: Place, info: os.stat_result) -> None:
        """Check the file itself, because one of Spindle's own files may have other names: by links of both kinds."""
        for path in self.withheld.list_own(everywhere=info.st_nlink > 1 and not stat.S_ISDIR(info.st_mode)):
            try:
                own = os.stat(path)  # noqa: PTH116 - a text
            except OSError:
                continue
            if os.path.samestat(own, info):
                raise place.refused(OWN_REASON)

    def _read_content(self, folder: int, place: Place) -> bytes:
        fd = self._open_file(folder, place, os.O_RDONLY)
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
        info = self._stat_entry(folder, place)
        if info is None and seen is NOTHING:
            return
        if info is None:
            raise _build_stale_error(place, "was removed")
        if seen is NOTHING:
            raise _build_stale_error(place, "was created by another writer")
        if info.st_size != seen.size_bytes or FileVersion.of(self._read_content(folder, place)) != seen:
            raise _build_stale_error(place, "was changed")

    def _check_size(self, place: Place, size_bytes: int) -> None:
        if size_bytes > self.max_file_bytes:
            raise build_access_error(
                place, "too_large", f"{size_bytes} bytes exceed the limit of {self.max_file_bytes}"
            )

    @staticmethod
    def _check_is_file_path(place: Place) -> None:
        if not place.names or place.is_folder:
            raise build_access_error(
                place, "not_a_file", "it is a folder path; pass a file path, without a trailing slash"
            )


def _build_stale_error(place: Place, what: str) -> StaleWriteError:
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


def _get_modified(info: os.stat_result) -> datetime:
    try:
        return datetime.fromtimestamp(info.st_mtime, UTC)
    except (OverflowError, ValueError, OSError):  # a file system can store years that a datetime cannot
        return datetime.fromtimestamp(0, UTC)
