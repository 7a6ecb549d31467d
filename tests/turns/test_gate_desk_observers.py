"""What observers of gates are told, and what they may do."""

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from spindle.turns.gate_desk import GateInfo
from tests.turns.gate_scene import Scene, gate, settled

pytestmark = pytest.mark.anyio


async def test_an_observer_may_settle_by_id_while_it_is_being_told() -> None:
    scene = Scene()
    scene.events.on("turn_gate_open", lambda info: scene.desk.resolve(info.id, "at once"))

    with anyio.fail_after(30):
        await scene.wait(gate(timeout_seconds=None))

    assert scene.ends == ["at once"]
    assert scene.results() == ["resolved"]


async def test_an_observer_gets_a_description_that_cannot_settle_or_change_anything() -> None:
    scene, payload = Scene(), {"amount": 5}
    asked = gate(payload=payload)

    def meddle() -> None:
        for info in (scene.told[0], *scene.desk.pending()):
            assert isinstance(info, GateInfo)
            assert not any(hasattr(info, name) for name in ("resolve", "reject", "abort"))
            info.payload["amount"] = 1_000_000
        assert scene.desk.pending()[0].payload == {"amount": 5}
        asked.resolve()

    await settled(scene, asked, meddle)

    assert payload == {"amount": 5}


async def test_a_payload_that_cannot_be_copied_is_shown_as_it_is() -> None:
    class Stubborn:
        def __deepcopy__(self, memo: object) -> None:
            raise TypeError

    scene, payload = Scene(), Stubborn()
    asked = gate(payload=payload)

    await settled(scene, asked, asked.abort)

    assert isinstance(scene.told[0], GateInfo)
    assert scene.told[0].payload is payload


async def test_an_async_observer_may_ask_and_answer() -> None:
    async def answer(info: GateInfo) -> None:
        await checkpoint()
        scene.desk.resolve(info.id, "asked")
        await checkpoint()
        scene.ends.append("last words")

    scene = Scene()
    scene.events.on("turn_gate_open", answer)
    with anyio.fail_after(30):
        await scene.wait(gate(timeout_seconds=None))

    assert scene.ends == ["last words", "asked"]


@pytest.mark.parametrize("way", ["timeout", "abort", "cancel"])
async def test_an_observer_that_never_answers_does_not_hold_up_the_waiter(way: str) -> None:
    async def ask_for_ever(_info: GateInfo) -> None:
        await anyio.sleep_forever()

    scene = Scene()
    scene.events.on("turn_gate_open", ask_for_ever)
    asked = gate(timeout_seconds=0.01 if way == "timeout" else None)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scene.wait, asked)
            await anyio.wait_all_tasks_blocked()
            if way == "abort":
                scene.desk.abort_turn("turn 1")
            elif way == "cancel":
                tasks.cancel_scope.cancel()

    assert scene.results() == [{"timeout": "timeout", "abort": "aborted", "cancel": "aborted"}[way]]


async def test_a_failing_observer_is_a_warning_and_the_waiter_waits_on() -> None:
    scene, asked = Scene(), gate()
    warned: list[Any] = []
    scene.events.on("warning", warned.append)

    async def fail(_payload: object) -> None:
        raise ValueError("broken observer")

    scene.events.on("turn_gate_open", fail)
    scene.events.on("turn_gate_closed", fail)

    assert await settled(scene, asked, lambda: asked.resolve(5)) == 5
    assert len(warned) == 2
