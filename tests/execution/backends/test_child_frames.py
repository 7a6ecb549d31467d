"""Frames: whole again however they were torn on the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.execution.backends.child import (
    FAILURE,
    MAX_FRAME_BYTES,
    MESSAGE,
    RESULT,
    UNSENDABLE,
    FrameDecoder,
    Kind,
    encode_frame,
)

KINDS: list[Kind] = [MESSAGE, RESULT, UNSENDABLE, FAILURE]
FRAMES = st.lists(st.tuples(st.sampled_from(KINDS), st.binary(max_size=50)))


@given(frames=FRAMES, sizes=st.lists(st.integers(1, 20), min_size=1))
def test_frames_come_out_as_they_went_in_whatever_the_pieces(
    frames: list[tuple[Kind, bytes]], sizes: list[int]
) -> None:
    stream = b"".join(encode_frame(kind, payload) for kind, payload in frames)
    reader = FrameDecoder()
    read: list[tuple[Kind, bytes]] = []

    place = turn = 0
    while place < len(stream):
        size = sizes[turn % len(sizes)]
        read += reader.feed(stream[place : place + size])
        place, turn = place + size, turn + 1

    assert read == frames


@given(payload=st.binary(min_size=1, max_size=50), missing=st.integers(1, 50))
def test_a_frame_that_was_cut_is_not_a_frame(payload: bytes, missing: int) -> None:
    cut = encode_frame(RESULT, payload)[:-missing]

    assert list(FrameDecoder().feed(cut)) == []


def test_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="frame"):
        list(FrameDecoder().feed(b"Traceback (most recent call last)"))


def test_a_frame_beyond_the_limit_is_refused_before_its_content_arrives() -> None:
    header = encode_frame(RESULT, b"")[:1] + (MAX_FRAME_BYTES + 1).to_bytes(8, "big")

    with pytest.raises(ValueError, match="exceeds"):
        list(FrameDecoder().feed(header))
