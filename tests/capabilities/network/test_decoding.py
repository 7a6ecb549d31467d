import gzip
import zlib
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.capabilities.network.decoding import PIECE_BYTES, build_decoder

TEXT = b"a wheel turns, a spindle winds. " * 100


def twice(data: bytes) -> bytes:
    return gzip.compress(gzip.compress(data))


def mixed(data: bytes) -> bytes:
    return gzip.compress(zlib.compress(data))


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def decode(coding: str, data: bytes, size: int = 1000) -> bytes:
    decoder = build_decoder([coding])
    assert decoder is not None
    out = b"".join(piece for at in range(0, len(data), size) for piece in decoder.feed(data[at : at + size]))
    decoder.finish()
    return out


@pytest.mark.parametrize("size", [1, 2, 7, 1000, 100_000])
@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("X-GZIP", gzip.compress),
        ("identity, gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", bare),
        ("gzip, gzip", twice),
        ("deflate, gzip", mixed),
    ],
)
def test_a_coding_is_undone_however_the_bytes_arrive(coding: str, pack: Callable[[bytes], bytes], size: int) -> None:
    assert decode(coding, pack(TEXT), size) == TEXT


@pytest.mark.parametrize("size", [1, 1000])
def test_members_of_a_gzip_body_are_joined_and_padding_is_skipped(size: int) -> None:
    assert decode("gzip", gzip.compress(b"one ") + b"\0\0" + gzip.compress(b"two") + b"\0\0\0", size) == b"one two"


@pytest.mark.parametrize("header", [[], [""], ["identity"], ["identity, identity"]])
def test_a_plain_body_needs_no_decoder(header: list[str]) -> None:
    assert build_decoder(header) is None


@pytest.mark.parametrize(
    "header", [["br"], ["zstd"], ["compress"], ["gzip, br"], ["gzip", "gzip", "gzip"], ["made-up"]]
)
def test_a_coding_that_was_not_asked_for_is_refused(header: list[str]) -> None:
    with pytest.raises(ValueError, match="coding"):
        build_decoder(header)


@pytest.mark.parametrize(
    ("coding", "data"),
    [
        ("gzip", b"not gzip at all"),
        ("gzip", gzip.compress(TEXT, mtime=0)[:-5]),
        ("gzip", gzip.compress(TEXT, mtime=0)[:-8] + b"12345678"),
        ("gzip", gzip.compress(TEXT, mtime=0) + b"trailing"),
        ("deflate", zlib.compress(TEXT)[:-2]),
        ("deflate", b"\xff\xff\xff"),
        ("deflate", b"x"),
    ],
    ids=["none", "cut", "wrong sum", "trailing", "cut deflate", "no deflate", "one byte"],
)
def test_a_damaged_or_truncated_body_is_reported(coding: str, data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - zlib's words, or ours
        decode(coding, data)


def test_an_empty_body_is_fine() -> None:
    assert decode("gzip", b"") == decode("deflate", b"") == b""


def test_a_bomb_comes_in_small_pieces() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    decoder = build_decoder(["gzip"])
    assert decoder is not None

    pieces = decoder.feed(bomb)

    assert [len(next(pieces)) for _ in range(3)] == [PIECE_BYTES] * 3


@given(st.binary(max_size=3000), st.integers(1, 500), st.sampled_from(["gzip", "deflate"]))
@settings(deadline=None)
def test_compressed_bodies_round_trip(data: bytes, size: int, coding: str) -> None:
    assert decode(coding, gzip.compress(data) if coding == "gzip" else zlib.compress(data), size) == data


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate", "gzip, deflate"]))
@settings(deadline=None)
def test_garbage_never_fails_in_another_way(data: bytes, coding: str) -> None:
    with suppress(ValueError):
        decode(coding, data)
