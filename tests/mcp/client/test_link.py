"""Lines that cannot grow without bound."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.mcp.client.link import BoundedLines, OversizedLine, TailBuffer


@given(st.lists(st.binary(max_size=30)), st.integers(1, 20))
def test_the_lines_are_the_same_however_they_arrive(lines: list[bytes], size: int) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    data = b"".join(line + b"\n" for line in lines)
    cutter = BoundedLines(1_000)
    found = [line for start in range(0, len(data), size) for line in cutter.feed(data[start : start + size])]

    assert found == [line for line in lines if line.strip()]


@given(st.integers(1, 5_000), st.integers(1, 700))
def test_a_line_is_given_or_counted(length: int, size: int) -> None:
    data = b"x" * length + b"\nnext\n"
    cutter = BoundedLines(1_000)
    first, second = [line for at in range(0, len(data), size) for line in cutter.feed(data[at : at + size])]

    assert second == b"next"
    if length <= 1_000:
        assert first == b"x" * length
    else:
        assert isinstance(first, OversizedLine)
        assert first.size == length


@pytest.mark.parametrize(
    "order",
    [
        ("jsonrpc", "id", "result"),
        ("id", "jsonrpc", "result"),
        ("result", "id", "jsonrpc"),
        ("jsonrpc", "result", "id"),
    ],
)
@pytest.mark.parametrize("request_id", [7, "seven"])
def test_the_request_a_dropped_answer_belongs_to_is_known(order: tuple[str, ...], request_id: int | str) -> None:
    parts = {"jsonrpc": "2.0", "id": request_id, "result": {"text": 'x","id":99,"' * 1_000}}
    line = json.dumps({name: parts[name] for name in order}).encode() + b"\n"
    (found,) = BoundedLines(1_000).feed(line)

    assert isinstance(found, OversizedLine)
    assert found.request_id() == request_id


@given(st.lists(st.binary(max_size=50)))
def test_a_tail_is_the_end(chunks: list[bytes]) -> None:
    tail = TailBuffer(40)
    for chunk in chunks:
        tail.feed(chunk)

    whole = b"".join(chunks)[-40:].decode("utf-8", "replace").strip()
    assert tail.lines(100) == "\n".join(whole.splitlines())
    assert tail.lines(1) == (whole.splitlines() or [""])[-1]
