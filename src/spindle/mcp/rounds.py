"""Several questions that are asked at once, and end together."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import anyio

from spindle.turns.gate import Gate

OpenGate: TypeAlias = Callable[[Gate], Awaitable[Any]]
AskAll: TypeAlias = Callable[[Sequence[Gate]], Awaitable[list[Any]]]
Round: TypeAlias = tuple[Gate, ...]


async def open_all(open_gate: OpenGate, gates: Sequence[Gate]) -> list[Any]:
    """Wait for all gates side by side, and give what each was settled with; the first that fails ends the others."""
    if len(gates) == 1:
        return [await open_gate(gates[0])]
    values: dict[int, Any] = {}
    failures: dict[int, Exception] = {}

    async def wait(place: int) -> None:
        try:
            values[place] = await open_gate(gates[place])
        except Exception as error:  # noqa: BLE001  raised below as it is, not as one of a group
            failures[place] = error
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for place in range(len(gates)):
            tasks.start_soon(wait, place)
    if failures:
        raise failures[min(failures)]
    return [values[place] for place in range(len(gates))]
