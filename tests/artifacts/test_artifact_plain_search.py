import pytest

from spindle.artifacts.artifact import search_line_ranges
from spindle.artifacts.readers import Match, Search
from spindle.errors import ArtifactQueryError

pytestmark = pytest.mark.anyio

LINES = ["a", "", "b a", "c", "a"]


async def search(wanted: Search, *, step: int) -> tuple[list[Match], list[int]]:
    read: list[int] = []

    async def read_lines(start: int, end: int) -> list[str]:
        read.extend(range(start, end))
        return LINES[start:end]

    ranges = [range(at, min(at + step, len(LINES))) for at in range(0, len(LINES), step)]
    return await search_line_ranges(wanted, ranges, read_lines, len(LINES)), read


@pytest.mark.parametrize("step", [1, 2, 3, 5])
async def test_matches_do_not_depend_on_where_blocks_end(step: int) -> None:
    assert (await search(Search(pattern="a"), step=step))[0] == [Match(0, "a"), Match(2, "b a"), Match(4, "a")]
    assert (await search(Search(pattern="^$"), step=step))[0] == [Match(1, "")]
    found, _ = await search(Search(pattern="c", before=2, after=1), step=step)
    assert found == [Match(1, ""), Match(2, "b a"), Match(3, "c"), Match(4, "a")]


async def test_enough_is_enough() -> None:
    found, read = await search(Search(pattern="a", limit=1), step=1)

    assert found == [Match(0, "a")]
    assert read == [0]


async def test_a_bad_pattern_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ArtifactQueryError):
        await search(Search(pattern="("), step=1)
