"""Journals whose writing can be watched, held up and made to fail."""

from collections.abc import Sequence
from typing import Any

import anyio

from spindle import Journal
from spindle.errors import JournalError
from spindle.journal import Claim, JournalEntry, MemoryJournalStore, Outcome, Row


class WatchedStore(MemoryJournalStore):
    """Notes how many rows each write had, and waits or fails on request."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[int] = []
        self.finished: list[int] = []
        self.has_finished = anyio.Event()
        self.is_finishing = anyio.Event()
        self.may_finish: anyio.Event | None = None
        self.fails_on: set[str] = set()

    @property
    def journal(self) -> Journal:
        """The journal that is kept here."""
        return Journal(self)

    async def wait_for(self, outcomes: int) -> None:
        """Wait until that many outcomes are written."""
        while sum(self.finished) < outcomes:
            self.has_finished = anyio.Event()
            await self.has_finished.wait()

    async def begin(self, claims: Sequence[Claim]) -> list[Row | None]:
        self._fail("begin")
        self.begun.append(len(claims))
        return await super().begin(claims)

    async def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        self.is_finishing.set()
        if self.may_finish is not None:
            await self.may_finish.wait()
        self._fail("finish")
        known = await super().finish(outcomes)
        self.finished.append(len(outcomes))
        self.has_finished.set()
        return known

    async def note(self, rows: Sequence[Row]) -> None:
        self._fail("note")
        await super().note(rows)

    def _fail(self, step: str) -> None:
        if step in self.fails_on:
            raise JournalError(f"failed on request in {step}") if step != "begin" else OSError("failed on request")


def get_content(entry: JournalEntry) -> dict[str, Any]:
    """Return the recorded result of a call without what was recorded of its way through the batch."""
    return {name: value for name, value in (entry.result or {}).items() if name not in {"timing", "waits", "events"}}
