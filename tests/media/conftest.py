"""Shared by the tests of media: small real files, made on the spot."""

import gzip
import io
import struct
import wave
import zipfile
import zlib

import pytest


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


def wav() -> bytes:
    held = io.BytesIO()
    with wave.open(held, "wb") as sound:
        sound.setparams((1, 1, 8000, 8, "NONE", "not compressed"))
        sound.writeframes(b"\x80" * 8)
    return held.getvalue()


def zipped(*names: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name in names:
            archive.writestr(name, "<x/>")
    return held.getvalue()


@pytest.fixture(scope="session")
def samples() -> dict[str, bytes]:
    """Real content, by its MIME type."""
    return {
        "image/png": png(),
        "image/gif": b"GIF89a\x01\x00\x01\x00\x80\x00\x00"
        + bytes(6)
        + b",\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;",
        "image/jpeg": b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00\xff\xd9",
        "image/svg+xml": b'<?xml version="1.0"?>\n<!-- drawn -->\n<svg xmlns="http://www.w3.org/2000/svg"/>',
        "audio/x-wav": wav(),
        "audio/mpeg": b"ID3\x03\x00\x00\x00\x00\x00\x00" + b"\xff\xfb\x90\x00" * 4,
        "video/mp4": b"\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isomiso2avc1mp41" + bytes(16),
        "application/pdf": b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\n",
        "application/zip": zipped("a.txt"),
        "application/gzip": gzip.compress(b"hello"),
        "application/json": b' {"a": [1, 2, {"b": null}]}\n',
        "application/xml": b'<?xml version="1.0"?><feed/>',
        "text/html": b"\n<!-- hi --><!DOCTYPE html><html><body>hello</body></html>",
        "text/plain": "Grüße, world.\n".encode(),
    }
