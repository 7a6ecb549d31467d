import re
import threading
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import cast

import anyio
import pytest
from anyio import to_thread
from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts import Artifact, BytesReader, SpoolReader, grep
from spindle.artifacts.block_reader import BlockReader
from spindle.artifacts.grep import merge_context_ranges, search_line_ranges
from spindle.artifacts.readers import Match, Search, build_line_index
from spindle.errors import ArtifactQueryError


def test_windows_merge_and_stay_inside() -> None:
    assert merge_context_ranges([3, 5, 20, 99], 1, 2, 100) == [(2, 8), (19, 23), (98, 100)]
    assert merge_context_ranges([0, 1, 2], 0, 0, 3) == [(0, 3)]
    assert merge_context_ranges([], 5, 5, 10) == []


async def search_in_ranges(query: Search, lines: list[str], size: int) -> list[Match]:
    async def read_lines(start: int, end: int) -> list[str]:
        return lines[start:end]

    ranges = (range(start, min(start + size, len(lines))) for start in range(0, len(lines), size))
    return await search_line_ranges(query, ranges, read_lines, len(lines))


@given(
    lines=st.lists(st.sampled_from(["a", "b", "", "ab"]), max_size=25),
    size=st.integers(1, 9),
    before=st.integers(0, 3),
    after=st.integers(0, 3),
    limit=st.one_of(st.none(), st.integers(0, 4)),
    pattern=st.sampled_from(["a", "^$", "b$", "", "zz"]),
)
def test_search_in_ranges_of_lines_gives_what_python_gives(
    *, lines: list[str], size: int, before: int, after: int, limit: int | None, pattern: str
) -> None:
    found = [number for number, line in enumerate(lines) if re.search(pattern, line)][:limit]
    shown = {near for number in found for near in range(number - before, number + after + 1) if 0 <= near < len(lines)}

    query = Search(pattern=pattern, before=before, after=after, limit=limit)
    answer = anyio.run(search_in_ranges, query, lines, size)

    assert answer == [Match(number, lines[number]) for number in sorted(shown)]
    assert [match.line for match in answer if not match.is_context] == found


def test_a_bad_pattern_is_refused_even_over_nothing() -> None:
    with pytest.raises(ArtifactQueryError):
        anyio.run(search_in_ranges, Search(pattern="("), list[str](), 1)


@pytest.mark.anyio
async def test_search_never_runs_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    here, threads = threading.get_ident(), set[int]()
    real = grep.compile_pattern

    def record(text: str, flags: str = "") -> grep.Pattern:
        threads.add(threading.get_ident())
        return real(text, flags)

    monkeypatch.setattr(grep, "compile_pattern", record)
    small = BytesReader("a\nb")

    assert await small.search(Search(pattern="[b]")) == [Match(1, "b")]
    assert await Artifact(cast("SpoolReader", Lines())).grep("[b]") == [Match(1, "b")]
    assert threads
    assert here not in threads


class Lines:
    """A reader without a search of its own."""

    def line(self, i: int) -> str:
        return "ab"[i]

    def byte_length(self) -> int:
        return 3

    def line_count(self) -> int:
        return 2

    def read_all(self) -> bytes:
        return b"a\nb"


@pytest.mark.anyio
async def test_cancelled_search_does_not_wait_for_its_step() -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Stuck:
        search_bytes = 1 << 20

        def read(self, start: int, end: int) -> bytes:
            entered.set()
            go_on.wait(30)
            return b"x" * (end - start)

        def local_path(self) -> AbstractAsyncContextManager[Path]:
            raise NotImplementedError

    reader = BlockReader(Stuck(), build_line_index(b"x" * 100))
    try:
        with anyio.fail_after(25):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(reader.search, Search(pattern="y+"))
                await to_thread.run_sync(entered.wait, 20)
                tasks.cancel_scope.cancel()
    finally:
        go_on.set()
