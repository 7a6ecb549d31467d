"""A store of records that writes down what it is asked, and records to put into it."""

from collections.abc import Iterable
from typing import Any

import anyio

from spindle import ToolCallRecord
from spindle.turns import Message
from spindle.turns.record_list import Kind


class Diary:
    """A place of one's own: writes down what it is asked, and fails on demand."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.broken = False
        self.hold: anyio.Event | None = None

    async def store(self, kind: Kind, record: Any, *, turn_id: str | None) -> None:
        await self._write("store", kind, record, turn_id)

    async def replace(self, kind: Kind, record: Any, *, turn_id: str | None) -> None:
        await self._write("replace", kind, record, turn_id)

    async def delete(self, kind: Kind, id: str, *, turn_id: str | None) -> None:
        await self._write("delete", kind, id, turn_id)

    async def load(self, turn_id: str | None) -> Iterable[tuple[Kind, Any]]:
        return [("message", Message.user(f"of {turn_id}"))]

    async def _write(self, *asked: Any) -> None:
        if self.hold is not None:
            await self.hold.wait()
        if self.broken:
            raise OSError("the diary is lost")
        self.asked.append(asked)


def call(id: str = "call_1", *, checksum: str = "c") -> ToolCallRecord:
    return ToolCallRecord(id=id, tool="add", args={}, checksum=checksum, is_complete=True, is_error=False, results="2")
