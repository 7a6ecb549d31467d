"""A temporary file with the bytes of an artifact that is stored elsewhere, for engines that read files."""

import os
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from spindle.concurrency import spool_threads

_CHUNK_BYTES = 8 << 20


@asynccontextmanager
async def temporary_copy(read: Callable[[int, int], bytes], byte_length: int) -> AsyncGenerator[Path]:
    """Provide a temporary file, readable only by this user, with the bytes that `read(start, end)` returns."""
    handle, name = await spool_threads.run(tempfile.mkstemp, ".spool", "spindle-")
    try:
        for start in range(0, byte_length, _CHUNK_BYTES):
            await spool_threads.run(_copy_range, read, handle, start, min(start + _CHUNK_BYTES, byte_length))
        yield Path(name)
    finally:
        with anyio.CancelScope(shield=True):
            await spool_threads.run(_discard, handle, name)


def _copy_range(read: Callable[[int, int], bytes], handle: int, start: int, end: int) -> None:
    data = memoryview(read(start, end))
    while data:
        data = data[os.write(handle, data) :]


def _discard(handle: int, name: str) -> None:
    os.close(handle)
    Path(name).unlink(missing_ok=True)
