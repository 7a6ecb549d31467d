"""Putting Spindle into a client's file and taking it out again, as changes that are shown before they are written."""

import difflib
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spindle.cli.atomic_file import back_up, delete_file, list_backups, read_bytes, replace_file
from spindle.cli.clients.catalogue import Location
from spindle.cli.clients.discovery import parse_content
from spindle.cli.clients.entries import MASK, mask_url
from spindle.cli.clients.jsonc import put_member, remove_member
from spindle.cli.config.schema import TOKEN, looks_like_secret
from spindle.cli.toml_tables import get_table, put_table, remove_table
from spindle.errors import InvalidConfigError
from spindle.json_types import JsonObject, is_object

_CONTEXT_LINES: Final = 2
_MAX_LINE: Final = 300
_ASSIGNED: Final = re.compile(r'"?([\w.-]+)"?(\s*[:=]\s*)"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A change of one file that has not been written yet."""

    path: Path
    before: bytes | None
    """The content now; `None` if the file does not exist."""
    after: bytes | None
    """The content afterwards; `None` deletes the file."""
    restored: Path | None = None
    """The backup that holds `after`."""

    @property
    def is_needed(self) -> bool:
        """Whether the file is not yet as it should be."""
        return self.before != self.after

    def write(self, *, keep_backup: bool = True) -> Path | None:
        """Write the change and return the backup of what was there before.

        Raises:
            CommandError: The file has changed meanwhile, or cannot be written.
        """
        copy = back_up(self.path, self.before) if keep_backup and self.before is not None else None
        if self.after is None:
            delete_file(self.path, before=self.before or b"")
        else:
            replace_file(self.path, before=self.before, after=self.after)
        return copy

    def diff(self) -> Iterator[str]:
        """Yield the lines of a unified diff; credentials in the file's other lines are masked."""
        before = (self.before or b"").decode("utf-8", "replace").splitlines()
        after = (self.after or b"").decode("utf-8", "replace").splitlines()
        old, new = (str(self.path) if text is not None else "/dev/null" for text in (self.before, self.after))
        for line in difflib.unified_diff(before, after, old, new, n=_CONTEXT_LINES, lineterm=""):
            yield line if line.startswith(("---", "+++", "@@")) else line[0] + _mask_line(line[1:])


def plan_installation(path: Path, location: Location, name: str, entry: JsonObject) -> Change:
    """Return the change that puts an entry into a client's file.

    Raises:
        CommandError: The file cannot be read.
        InvalidConfigError: The file is invalid, or has something else where the servers should be.
    """
    before = read_bytes(path)
    with _naming(path):
        text = _decode(before or b"")
        if before is not None and _get_entry(text, location, name) == entry:
            return Change(path=path, before=before, after=before)
        return Change(path=path, before=before, after=_put(text, location, name, entry).encode())


def plan_removal(path: Path, location: Location, name: str) -> Change | None:
    """Return the change that takes an entry out again, or `None` if the file has none of that name.

    If the file is a backup with this entry put in, the backup is restored exactly, and a file that has only this entry
    is deleted. Otherwise it has changed since: only the entry is removed, and everything else is kept.

    Raises:
        CommandError: The file cannot be read.
        InvalidConfigError: The file is invalid.
    """
    before = read_bytes(path)
    with _naming(path):
        text = _decode(before or b"")
        entry = None if before is None else _get_entry(text, location, name)
        if entry is None:
            return None
        for copy in list_backups(path):
            data = read_bytes(copy)
            if data is not None and _is_installed_from(data, text, location, name, entry):
                return Change(path=path, before=before, after=data, restored=copy)
        if _put("", location, name, entry) == text:
            return Change(path=path, before=before, after=None)
        remove = remove_table if location.format == "toml" else remove_member
        return Change(path=path, before=before, after=remove(text, location.table, name).encode())


def _is_installed_from(data: bytes, text: str, location: Location, name: str, entry: JsonObject) -> bool:
    try:
        backup = _decode(data)
        return _get_entry(backup, location, name) is None and _put(backup, location, name, entry) == text
    except InvalidConfigError:
        return False


@contextmanager
def _naming(path: Path) -> Generator[None]:
    """Name the file in the errors of the block."""
    try:
        yield
    except InvalidConfigError as error:
        raise InvalidConfigError(f"{path}: {error}", path=str(path)) from None


def _put(text: str, location: Location, name: str, entry: JsonObject) -> str:
    put = put_table if location.format == "toml" else put_member
    return put(text, location.table, name, entry)


def _get_entry(text: str, location: Location, name: str) -> JsonObject | None:
    if location.format == "toml":
        return get_table(text, location.table, name)
    # Strictly for a client that does not accept comments: an edit would hide what is wrong with its file.
    found = parse_content(text, location.format)
    for step in (*location.table, name):
        found = found.get(step) if is_object(found) else None
    return found if is_object(found) else None


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidConfigError("is not UTF-8 text") from None


def _mask_line(line: str) -> str:
    if len(line) > _MAX_LINE:
        return f"(a line of {len(line)} characters)"
    # The values of env_secrets and header_secrets are names.
    return TOKEN.sub(MASK, line if "_secrets" in line else _ASSIGNED.sub(_mask_assigned, line))


def _mask_assigned(found: re.Match[str]) -> str:
    name, between, value = found[1], found[2], found[3]
    shown = mask_url(value) if "://" in value else MASK if looks_like_secret(name, value) else value
    return found[0] if shown == value else f'"{name}"{between}"{shown}"'
