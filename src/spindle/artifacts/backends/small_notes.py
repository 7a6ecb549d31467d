"""Notes of small versions, which hold the bytes too: one sync then makes both durable.

The bytes are also written to a data file, which is not synced. Only power loss can take it away, and then the machine
starts again with another boot id: the first reader writes the file again from the note.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from spindle.artifacts.backends.files import create_draft_file, write_fully
from spindle.artifacts.spool import Manifest

SMALL_BYTES = 64 << 10
"""Versions up to this size are kept in their notes."""

_MAGIC = b"spindle small 1\n"
_BOOT_ID_CHARS, _LENGTH_CHARS, _DIGEST_BYTES = 36, 8, 32
_HEADER_BYTES = len(_MAGIC) + _BOOT_ID_CHARS + _LENGTH_CHARS
_FIRST_BYTES = 4 << 10


@cache
def get_boot_id() -> bytes | None:
    """Return an id that changes when the machine starts; `None` where there is none, and no small notes."""
    try:
        found = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    except OSError:
        return None
    return found if len(found) == _BOOT_ID_CHARS else None


def build_small_note(manifest: Manifest, content: bytes, boot_id: bytes) -> bytes:
    """Serialize a manifest and its bytes."""
    facts = manifest.to_bytes()
    return b"".join([_MAGIC, boot_id, b"%08x" % len(facts), facts, content, sha256(content).digest()])


class Note(NamedTuple):
    """What a note says."""

    manifest: Manifest
    may_lack_data: bool
    """Whether the machine has started again since, so that the data file may be gone or incomplete."""


def read_note(path: Path) -> Note | None:
    """Read a note without the bytes that it may hold; return `None` if it is damaged, or none of ours.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(_FIRST_BYTES)
        if not data.startswith(_MAGIC):
            manifest = Manifest.from_bytes(data + file.read())
            return None if manifest is None else Note(manifest, may_lack_data=False)
        length = _parse_length(data)
        if len(data) < _HEADER_BYTES + length:
            data += file.read()  # all of it: a damaged length must not decide how much memory is needed
    manifest = Manifest.from_bytes(data[_HEADER_BYTES : _HEADER_BYTES + length])
    written_at = data[len(_MAGIC) : len(_MAGIC) + _BOOT_ID_CHARS]
    return None if manifest is None else Note(manifest, may_lack_data=written_at != get_boot_id())


def list_notes(root: Path) -> Iterator[tuple[str, float]]:
    """Yield the name and the modification time of each note of a spool, without reading it."""
    with suppress(FileNotFoundError), os.scandir(root) as folders:  # nothing was spooled yet
        for folder in folders:
            if len(folder.name) != 2 or not folder.is_dir(follow_symlinks=False):
                continue
            with os.scandir(folder) as files:
                for file in files:
                    name, _, kind = file.name.partition(".")
                    if kind == "note":
                        with suppress(FileNotFoundError):  # deleted meanwhile
                            yield name, file.stat(follow_symlinks=False).st_mtime


def restore_data(path: Path, note: Path) -> None:
    """Write a data file again from its small note, unless it is there; do nothing if the note is damaged.

    Raises:
        OSError: A file cannot be read or written.
    """
    kept = note.read_bytes()
    content = kept[_HEADER_BYTES + _parse_length(kept) : -_DIGEST_BYTES]
    if sha256(content).digest() != kept[-_DIGEST_BYTES:] or (path.exists() and path.read_bytes() == content):
        return
    draft = path.with_name(f"{path.stem}.{token_hex(8)}.draft")
    handle = create_draft_file(draft)
    try:
        write_fully(handle, content)
        os.fsync(handle)
        draft.rename(path)
    finally:
        os.close(handle)


def _parse_length(data: bytes) -> int:
    try:
        return int(data[_HEADER_BYTES - _LENGTH_CHARS : _HEADER_BYTES], 16)
    except ValueError:
        return 0
