"""A desk with observers, for the tests of waiting."""

from collections.abc import Callable
from typing import Any

import anyio

from spindle import Events
from spindle.turns.gate_desk import Gate, GateClosed, GateDesk, GateInfo


class Scene:
    """A desk, the events of its observers, and the results of the waiters."""

    def __init__(self) -> None:
        self.desk, self.events = GateDesk(), Events()
        self.reported: list[GateInfo | GateClosed] = []
        self.ends: list[Any] = []
        self.opened = anyio.Event()
        self.events.on("turn_gate_open", self._on_open)
        self.events.on("turn_gate_closed", self.reported.append)

    def _on_open(self, info: GateInfo) -> None:
        self.reported.append(info)
        self.opened.set()

    async def wait(self, gate: Gate, turn_id: str = "turn 1") -> None:
        try:
            self.ends.append(await self.desk.wait(gate, turn_id=turn_id, events=self.events))
        except Exception as error:  # noqa: BLE001
            self.ends.append(error)

    def results(self) -> list[str]:
        return [each.result for each in self.reported if isinstance(each, GateClosed)]


async def settled(scene: Scene, gate: Gate, act: Callable[[], object]) -> Any:
    """Wait for a gate in a task, act when it is open, and give what became of the waiter."""
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scene.wait, gate)
            await scene.opened.wait()
            act()
    return scene.ends[0]


def gate(*, timeout_seconds: float | None = 5, **facts: Any) -> Gate:
    return Gate("may I?", timeout_seconds=timeout_seconds, **facts)
