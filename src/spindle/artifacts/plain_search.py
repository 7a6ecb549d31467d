"""`grep` for readers that cannot search by themselves: the same engine, over blocks of their lines."""

from collections.abc import Awaitable, Callable, Iterable

from anyio.to_thread import run_sync

from spindle.artifacts.lines import encode_text, index_of
from spindle.artifacts.reader import Match, Search
from spindle.artifacts.search import LineSearch, windows


async def search_lines(
    wanted: Search,
    ranges: Iterable[range],
    read_lines: Callable[[int, int], Awaitable[list[str]]],
    line_count: int,
) -> list[Match]:
    """Give the lines that match, in order, with their context.

    Raises:
        ArtifactQueryError: The pattern or a flag is not of the dialect.
    """
    # Even nothing is searched once, so that a bad pattern is refused whatever the content.
    found = await run_sync(_search_block, wanted, 0, list[str]())
    for part in ranges:
        found += await run_sync(_search_block, wanted, part.start, await read_lines(part.start, part.stop))
        if wanted.limit is not None and len(found) >= wanted.limit:
            del found[wanted.limit :]
            break
    if not (wanted.before or wanted.after):
        return found
    matches = {match.line: match for match in found}
    answer: list[Match] = []
    for first, last in windows(matches, wanted.before, wanted.after, line_count):
        texts = await read_lines(first, last)
        answer += [matches.get(n) or Match(n, text, is_context=True) for n, text in enumerate(texts, first)]
    return answer


def _search_block(wanted: Search, start: int, lines: list[str]) -> list[Match]:
    # The last newline keeps a block of one empty line from being no line at all; what it adds is dropped below.
    data = encode_text("\n".join(lines) + "\n") if lines else b""
    search = LineSearch(wanted, index_of(data), lambda begin, end: data[begin:end])
    while not search.is_done:
        search.advance()
    return [Match(start + match.line, match.text) for match in search.matches if match.line < len(lines)]
