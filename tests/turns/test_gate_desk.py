"""Waiting for gates at a desk, and settling them by id."""

from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

from spindle import Events
from spindle.errors import (
    GateAbortedError,
    GateTimeoutError,
    InvalidGateError,
    InvalidGateResolutionError,
    UnknownGateError,
)
from spindle.turns.gate_desk import GateClosed, GateDesk, GateInfo
from tests.turns.gate_scene import Scene, gate, settled

pytestmark = pytest.mark.anyio


async def test_resolved_gate_returns_its_value_and_emits_both_events() -> None:
    scene, asked = Scene(), gate(payload={"amount": 5}, id="g")

    assert await settled(scene, asked, lambda: asked.resolve("yes")) == "yes"

    assert asked.settlement is not None
    assert scene.reported == [
        GateInfo(id="g", turn_id="turn 1", reason="may I?", payload={"amount": 5}, created_at=asked.created_at),
        GateClosed(gate_id="g", turn_id="turn 1", result="resolved", settled_at=asked.settlement.at),
    ]


async def test_rejected_gate_raises_its_error() -> None:
    scene, asked, error = Scene(), gate(), PermissionError("no")

    assert await settled(scene, asked, lambda: asked.reject(error)) is error
    assert scene.results() == ["rejected"]


async def test_aborted_gate_raises() -> None:
    scene, asked = Scene(), gate(id="g")

    end = await settled(scene, asked, asked.abort)

    assert isinstance(end, GateAbortedError)
    assert (end.gate_id, end.code, end.status, end.fatal) == ("g", "E_TURN_GATE_ABORTED", 499, False)
    assert scene.results() == ["aborted"]


async def test_unsettled_gate_times_out() -> None:
    scene, asked = Scene(), gate(id="g", timeout_seconds=0.01)

    with anyio.fail_after(30):
        await scene.wait(asked)

    [end] = scene.ends
    assert isinstance(end, GateTimeoutError)
    assert (end.gate_id, end.code, end.status, end.fatal) == ("g", "E_TURN_GATE_TIMEOUT", 408, False)
    assert scene.results() == ["timeout"]
    assert asked.is_settled


async def test_gate_settled_before_the_wait_returns_at_once_without_events() -> None:
    scene, asked, refused = Scene(), gate(timeout_seconds=None), gate(timeout_seconds=None)
    asked.resolve(5)
    refused.abort()

    with anyio.fail_after(30):
        await scene.wait(asked)
        await scene.wait(refused)

    assert scene.ends[0] == 5
    assert isinstance(scene.ends[1], GateAbortedError)
    assert scene.reported == []


async def test_a_gate_is_pending_from_its_opening_until_it_is_settled() -> None:
    scene, asked = Scene(), gate(id="g")
    seen: list[list[str]] = []

    def look_and_settle() -> None:
        seen.append([info.id for info in scene.desk.pending()])
        asked.resolve()
        seen.append([info.id for info in scene.desk.pending()])

    assert scene.desk.pending() == []
    await settled(scene, asked, look_and_settle)

    assert seen == [["g"], []]
    assert scene.desk.pending() == []


@pytest.mark.parametrize("way", ["resolve", "reject", "abort"])
async def test_a_gate_is_settled_by_its_id(way: str) -> None:
    scene, asked, error = Scene(), gate(id="g"), ValueError("no")
    ways: dict[str, Callable[[], object]] = {
        "resolve": lambda: scene.desk.resolve("g", 5),
        "reject": lambda: scene.desk.reject("g", error),
        "abort": lambda: scene.desk.abort("g"),
    }

    end = await settled(scene, asked, ways[way])

    assert end == 5 or end is error or isinstance(end, GateAbortedError)
    assert scene.results() == [{"resolve": "resolved", "reject": "rejected", "abort": "aborted"}[way]]


async def test_settling_an_unknown_id_raises_and_a_settled_one_does_nothing() -> None:
    scene, asked = Scene(), gate(id="g")
    calls: list[Callable[[str], object]] = [
        lambda name: scene.desk.resolve(name, 1),
        lambda name: scene.desk.reject(name, ValueError()),
        scene.desk.abort,
    ]

    for call in calls:
        with pytest.raises(UnknownGateError) as caught:
            call("g")
        assert caught.value.gate_id == "g"

    assert await settled(scene, asked, lambda: [scene.desk.resolve("g", n) for n in (1, 2)]) == 1
    for call in calls:
        call("g")
    assert asked.outcome() == 1


@pytest.mark.one_loop
async def test_desk_remembers_at_most_a_thousand_settled_gates() -> None:
    scene = Scene()
    scene.events.on("turn_gate_open", lambda info: scene.desk.resolve(info.id))
    for number in range(1_001):
        await scene.wait(gate(id=str(number)))

    scene.desk.resolve("1")
    with pytest.raises(UnknownGateError):
        scene.desk.resolve("0")


async def test_invalid_value_raises_for_the_resolver_and_keeps_the_gate_open() -> None:
    scene, asked = Scene(), gate(id="g", schema=int)

    def try_twice() -> None:
        with pytest.raises(InvalidGateResolutionError):
            scene.desk.resolve("g", "many")
        scene.desk.resolve("g", "5")

    assert await settled(scene, asked, try_twice) == 5


async def test_gate_can_be_settled_by_another_thread() -> None:
    scene, asked = Scene(), gate()

    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(30):
            tasks.start_soon(scene.wait, asked)
            await scene.opened.wait()
            await anyio.to_thread.run_sync(scene.desk.resolve, asked.id, "from a thread")

    assert scene.ends == ["from a thread"]


async def test_waiters_share_one_settlement_and_one_close_event() -> None:
    scene, asked, value = Scene(), gate(), object()

    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(30):
            for _ in range(3):
                tasks.start_soon(scene.wait, asked)
            await scene.opened.wait()
            await anyio.wait_all_tasks_blocked()
            asked.resolve(value)

    assert all(end is value for end in scene.ends)
    assert len(scene.ends) == 3
    assert [type(each) for each in scene.reported] == [GateInfo, GateClosed]


async def test_a_gate_may_be_waited_for_again() -> None:
    scene, asked = Scene(), gate()
    await settled(scene, asked, lambda: asked.resolve(5))

    await scene.wait(asked)

    assert scene.ends == [5, 5]
    assert scene.results() == ["resolved"]


async def test_late_waiter_has_the_remaining_time() -> None:
    scene, asked = Scene(), gate(timeout_seconds=0.05)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scene.wait, asked)
            await scene.opened.wait()
            tasks.start_soon(scene.wait, asked)

    assert [type(end) for end in scene.ends] == [GateTimeoutError, GateTimeoutError]
    assert scene.results() == ["timeout"]


async def test_cancelled_waiter_is_cancelled_and_its_gate_closed() -> None:
    scene, asked = Scene(), gate(timeout_seconds=None)
    awaited: list[str] = []

    async def slowly(closed: GateClosed) -> None:
        await checkpoint()
        awaited.append(closed.result)

    scene.events.on("turn_gate_closed", slowly)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scene.wait, asked)
            await scene.opened.wait()
            tasks.cancel_scope.cancel()

    assert tasks.cancel_scope.cancelled_caught
    assert scene.ends == []
    assert scene.results() == awaited == ["aborted"]
    assert asked.is_settled
    assert scene.desk.pending() == []


async def test_cancelled_waiter_leaves_the_gate_open_for_another_waiter() -> None:
    scene, asked = Scene(), gate()
    scope = anyio.CancelScope()

    async def impatient() -> None:
        with scope:
            await scene.wait(asked)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(impatient)
            await scene.opened.wait()
            tasks.start_soon(scene.wait, asked)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await anyio.wait_all_tasks_blocked()
            assert not asked.is_settled
            asked.resolve("still here")

    assert scene.ends == ["still here"]
    assert scene.results() == ["resolved"]


async def test_aborting_a_turn_aborts_only_its_own_gates() -> None:
    scene, mine, later, other = Scene(), gate(), gate(), gate()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scene.wait, mine)
            tasks.start_soon(scene.wait, other, "turn 2")
            await anyio.wait_all_tasks_blocked()
            scene.desk.abort_turn("turn 1")
            await scene.wait(later)
            assert not other.is_settled
            other.resolve("fine")

    assert [type(end) for end in scene.ends] == [GateAbortedError, GateAbortedError, str]
    assert later.is_settled


async def test_forgotten_turn_leaves_no_gates() -> None:
    scene, left, later = Scene(), gate(), gate()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scene.wait, left)
            await scene.opened.wait()
            scene.desk.forget_turn("turn 1")
    assert isinstance(scene.ends.pop(), GateAbortedError)

    scene.opened = anyio.Event()
    assert await settled(scene, later, lambda: later.resolve(5)) == 5


async def test_second_open_gate_with_the_same_id_is_rejected() -> None:
    scene, first, second = Scene(), gate(id="g"), gate(id="g")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scene.wait, first)
            await scene.opened.wait()
            with pytest.raises(InvalidGateError) as caught:
                await scene.desk.wait(second, turn_id="turn 1", events=scene.events)
            assert caught.value.field == "id"
            first.resolve("first")
            # The first is settled, though its waiter has not noticed yet.
            tasks.start_soon(scene.wait, second)
            await anyio.wait_all_tasks_blocked()
            second.resolve("second")

    assert scene.ends == ["first", "second"]
    assert scene.results() == ["resolved", "resolved"]


async def test_a_gate_belongs_to_the_turn_that_opened_it() -> None:
    scene, asked = Scene(), gate()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scene.wait, asked)
            await scene.opened.wait()
            with pytest.raises(InvalidGateError):
                await scene.desk.wait(asked, turn_id="turn 2", events=scene.events)
            asked.abort()


@pytest.mark.parametrize("thing", [None, "gate", 5, {"reason": "x"}], ids=repr)
async def test_waiting_for_something_else_than_a_gate_raises(thing: Any) -> None:
    with pytest.raises(InvalidGateError) as caught:
        await GateDesk().wait(thing, turn_id="turn 1", events=Events())

    assert caught.value.field == "gate"


@pytest.mark.slow
async def test_thousand_concurrent_gates_each_get_their_own_value() -> None:
    scene = Scene()
    gates = [gate(id=str(number)) for number in range(1_000)]

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for number, each in enumerate(gates):
                tasks.start_soon(scene.wait, each, f"turn {number % 10}")
            await anyio.wait_all_tasks_blocked()
            for info in scene.desk.pending():
                scene.desk.resolve(info.id, info.id)

    assert sorted(scene.ends, key=int) == [each.id for each in gates]
    assert scene.results() == ["resolved"] * 1_000


async def test_observer_may_settle_the_gate_by_id() -> None:
    scene = Scene()
    scene.events.on("turn_gate_open", lambda info: scene.desk.resolve(info.id, "at once"))

    with anyio.fail_after(30):
        await scene.wait(gate(timeout_seconds=None))

    assert scene.ends == ["at once"]
    assert scene.results() == ["resolved"]


async def test_observer_gets_a_copy_that_cannot_settle_the_gate() -> None:
    scene, payload = Scene(), {"amount": 5}
    asked = gate(payload=payload)

    def meddle() -> None:
        for info in (scene.reported[0], *scene.desk.pending()):
            assert isinstance(info, GateInfo)
            assert not any(hasattr(info, name) for name in ("resolve", "reject", "abort"))
            info.payload["amount"] = 1_000_000
        assert scene.desk.pending()[0].payload == {"amount": 5}
        asked.resolve()

    await settled(scene, asked, meddle)

    assert payload == {"amount": 5}


async def test_payload_that_cannot_be_copied_is_passed_unchanged() -> None:
    class Stubborn:
        def __deepcopy__(self, memo: object) -> None:
            raise TypeError

    scene, payload = Scene(), Stubborn()
    asked = gate(payload=payload)

    await settled(scene, asked, asked.abort)

    assert isinstance(scene.reported[0], GateInfo)
    assert scene.reported[0].payload is payload


async def test_async_observer_may_settle_the_gate() -> None:
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
async def test_hanging_observer_does_not_block_the_waiter(way: str) -> None:
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


async def test_failing_observer_causes_a_warning_and_keeps_the_gate_open() -> None:
    scene, asked = Scene(), gate()
    warned: list[Any] = []
    scene.events.on("warning", warned.append)

    async def fail(_payload: object) -> None:
        raise ValueError("broken observer")

    scene.events.on("turn_gate_open", fail)
    scene.events.on("turn_gate_closed", fail)

    assert await settled(scene, asked, lambda: asked.resolve(5)) == 5
    assert len(warned) == 2
