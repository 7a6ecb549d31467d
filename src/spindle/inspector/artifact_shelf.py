"""The artifacts that people look at: the list of the spool, and what is known of those that were opened lately."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spindle.artifacts.block_reader import BlockReader
from spindle.artifacts.browsing import (
    ContentFacts,
    JsonTree,
    MarkdownPages,
    SpoolListing,
    describe_content,
    open_content,
)
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.spool import Spool
from spindle.artifacts.table_artifact import TableArtifact
from spindle.concurrency import spool_threads
from spindle.errors import UnknownItemError
from spindle.text import shorten, unescape_surrogates

MAX_OPEN: Final = 16
MAX_AGE_SECONDS: Final = 5.0
"""How long an artifact is read without asking the spool whether it was replaced or deleted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenArtifact:
    """One artifact, with what its views have learnt of it."""

    id: str
    content: BlockReader
    facts: ContentFacts
    tree: JsonTree
    pages: MarkdownPages
    table: TableArtifact
    json: JsonArtifact


class ArtifactShelf:
    """The spool as the page reads it; keeps a few open artifacts, so that paging through one is quick."""

    def __init__(self, spool: Spool, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._spool, self._clock = spool, clock
        self.listing = SpoolListing(spool, clock=clock)
        self._open: OrderedDict[str, tuple[float, OpenArtifact]] = OrderedDict()

    async def open(self, shown_id: str) -> OpenArtifact:
        """Return an artifact by the id that the API shows.

        Raises:
            UnknownItemError: The spool does not have it.
            SpoolError: The spool is unavailable.
        """
        own_id = unescape_surrogates(shown_id)
        known = self._open.get(own_id)
        if known is not None and self._clock() - known[0] <= MAX_AGE_SECONDS:
            self._open.move_to_end(own_id)
            return known[1]
        reader = await self._spool.read(own_id)
        if reader is None:
            self._open.pop(own_id, None)
            raise UnknownItemError(
                f"the spool has no artifact {shorten(shown_id, 200)!r}; it may have been pruned", field="id"
            )
        content = await open_content(reader)
        if known is not None and _is_same(known[1].content, content):
            artifact = known[1]
        else:
            artifact = await spool_threads.run(_build, own_id, content)
        self._open[own_id] = (self._clock(), artifact)
        self._open.move_to_end(own_id)
        while len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)
        return artifact


def _build(id: str, content: BlockReader) -> OpenArtifact:
    return OpenArtifact(
        id=id,
        content=content,
        facts=describe_content(content, id),
        tree=JsonTree(content),
        pages=MarkdownPages(content),
        table=TableArtifact(content),
        json=JsonArtifact(content),
    )


def _is_same(old: BlockReader, new: BlockReader) -> bool:
    """Return whether two readers have the same version; without a file to compare, they are the same object."""
    return old is new or (old.stored_file is not None and old.stored_file == new.stored_file)
