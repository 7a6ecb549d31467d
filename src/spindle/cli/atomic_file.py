"""Editing a user's file safely: links are followed, the mode is kept, a backup is made, and the write is atomic."""

import os
import stat
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from spindle.errors import CommandError

_FAILED: Final = 1
_MAX_BYTES: Final = 16 << 20
_MAX_BACKUPS: Final = 200


def resolve_target(path: Path) -> Path:
    """Return the file that a path leads to, through links.

    Raises:
        CommandError: A link leads nowhere, or the file is not a regular file of this user.
    """
    target = Path(os.path.realpath(path))
    try:
        found = target.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise CommandError(f"{path} is a link to {target}, which does not exist", exit_code=_FAILED) from None
        return target
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", exit_code=_FAILED) from error
    if not stat.S_ISREG(found.st_mode):
        raise CommandError(f"{path} is not a regular file", exit_code=_FAILED)
    if os.name == "posix" and found.st_uid != os.geteuid():
        raise CommandError(f"{path} belongs to another user (uid {found.st_uid})", exit_code=_FAILED)
    return target


def read_bytes(path: Path) -> bytes | None:
    """Return the content of a file, or `None` if it does not exist.

    Raises:
        CommandError: It cannot be read, or is larger than 16 MiB.
    """
    target = resolve_target(path)
    try:
        with target.open("rb") as opened:
            data = opened.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", exit_code=_FAILED) from error
    if len(data) > _MAX_BYTES:
        raise CommandError(f"{path} is larger than {_MAX_BYTES >> 20} MiB", exit_code=_FAILED)
    return data


def replace_file(path: Path, *, before: bytes | None, after: bytes) -> None:
    """Replace the content of a file in one step, if it is still what it was; a new file can be read by its owner only.

    Raises:
        CommandError: The file has changed meanwhile, or cannot be written.
    """
    target = resolve_target(path)
    try:
        number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        fresh = Path(name)
        try:
            with os.fdopen(number, "wb") as opened:
                opened.write(after)
                opened.flush()
                os.fsync(opened.fileno())
            _copy_mode(target, fresh)
            if read_bytes(target) != before:
                raise CommandError(
                    f"{path} has changed meanwhile; nothing was written", exit_code=_FAILED, hint="run it again"
                )
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}", exit_code=_FAILED) from error


def delete_file(path: Path, *, before: bytes) -> None:
    """Delete a file, if it is still what it was.

    Raises:
        CommandError: The file has changed meanwhile, or cannot be deleted.
    """
    if read_bytes(path) != before:
        raise CommandError(f"{path} has changed meanwhile; nothing was deleted", exit_code=_FAILED, hint="run it again")
    try:
        path.unlink()
    except OSError as error:
        raise CommandError(f"cannot delete {path}: {error.strerror}", exit_code=_FAILED) from error


def back_up(path: Path, data: bytes) -> Path:
    """Write a copy of a file beside it, with its mode and the time in its name, and return the path of the copy.

    Raises:
        CommandError: The copy cannot be written.
    """
    target = resolve_target(path)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    copy = target.with_name(f"{target.name}.spindle-{moment}.bak")
    try:
        with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(data)
        _copy_mode(target, copy)
    except OSError as error:
        raise CommandError(f"cannot write the backup {copy}: {error.strerror}", exit_code=_FAILED) from error
    return copy


def list_backups(path: Path) -> list[Path]:
    """Return the backups of a file, newest first."""
    target = resolve_target(path)
    start = f"{target.name}.spindle-"
    try:
        names = [each for each in os.listdir(target.parent) if each.startswith(start) and each.endswith(".bak")]  # noqa: PTH208
    except OSError:
        return []
    return [target.with_name(name) for name in sorted(names, reverse=True)[:_MAX_BACKUPS]]


def _copy_mode(source: Path, copy: Path) -> None:
    with suppress(FileNotFoundError):
        found = source.stat()
        copy.chmod(stat.S_IMODE(found.st_mode))
        if os.name == "posix":
            with suppress(OSError):  # only a member of the group may keep it
                os.chown(copy, -1, found.st_gid)
