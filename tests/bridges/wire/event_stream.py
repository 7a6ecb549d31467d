"""Writes the binary frames in which Amazon's APIs send events."""

import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any
from zlib import crc32

from tests.bridges.wire.server import Answer


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Write one frame: lengths, their checksum, headers, payload, and a checksum of everything."""
    named = b"".join(_header(name, value) for name, value in headers.items())
    prelude = struct.pack("!II", 16 + len(named) + len(payload), len(named))
    body = prelude + struct.pack("!I", crc32(prelude)) + named + payload
    return body + struct.pack("!I", crc32(body))


def event(kind: str, data: Any) -> bytes:
    """Write one event."""
    headers = {":message-type": "event", ":event-type": kind, ":content-type": "application/json"}
    return frame(headers, json.dumps(data).encode())


def exception(kind: str, message: str) -> bytes:
    """Write an error that comes in the middle of a stream."""
    headers = {":message-type": "exception", ":exception-type": kind, ":content-type": "application/json"}
    return frame(headers, json.dumps({"message": message}).encode())


def events_answer(
    events: Iterable[Mapping[str, Any] | bytes], *, cut_after: int | None = None, holds: bool = False
) -> Answer:
    """Answer with a stream of events, each `{kind: data}`; bytes are sent as they are."""
    chunks = [each if isinstance(each, bytes) else event(*next(iter(each.items()))) for each in events]
    headers = {"content-type": "application/vnd.amazon.eventstream"}
    return Answer(headers=headers, chunks=chunks, cut_after=cut_after, holds=holds)


def _header(name: str, value: str) -> bytes:
    text = value.encode()
    return bytes([len(name)]) + name.encode() + b"\x07" + struct.pack("!H", len(text)) + text
