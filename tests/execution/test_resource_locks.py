"""Resources: readers together, writers alone, in the order of joining; every waiter is served."""

from collections.abc import Iterator
from threading import Thread

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from spindle.errors import UsageError
from spindle.execution.resource_locks import LockRequest, ResourceLocks
from tests.fuzzing import examples

RESOURCES = st.lists(st.sampled_from("abcd"), max_size=3)


def conflict(one: LockRequest, other: LockRequest) -> bool:
    return bool(set(one.resources) & set(other.resources)) and not (one.shared and other.shared)


class ResourceLocksMachine(RuleBasedStateMachine):
    """The whole law in one sentence: a ticket is ready when no earlier one that is still here conflicts with it."""

    tickets: Bundle[LockRequest] = Bundle("tickets")

    def __init__(self) -> None:
        super().__init__()
        self.locks = ResourceLocks()
        self.here: list[LockRequest] = []

    @rule(target=tickets, resources=RESOURCES, shared=st.booleans())
    def join(self, resources: list[str], shared: bool) -> LockRequest:
        ticket = self.locks.request(resources, shared=shared)
        self.here.append(ticket)
        return ticket

    @rule(ticket=consumes(tickets))
    def leave(self, ticket: LockRequest) -> None:
        ticket.release()
        self.here.remove(ticket)

    @rule(ticket=consumes(tickets))
    def leave_twice(self, ticket: LockRequest) -> None:
        ticket.release()
        ticket.release()
        self.here.remove(ticket)

    @invariant()
    def ready_are_exactly_those_without_an_earlier_rival(self) -> None:
        for place, ticket in enumerate(self.here):
            assert ticket.is_ready is not any(conflict(ticket, earlier) for earlier in self.here[:place])

    @invariant()
    def rivals_never_hold_a_lock_together(self) -> None:
        inside = [ticket for ticket in self.here if ticket.is_ready]
        assert not any(conflict(one, other) for one in inside for other in inside if one is not other)

    @invariant()
    def the_first_is_always_ready(self) -> None:
        assert all(ticket.is_ready for ticket in self.here[:1])

    @invariant()
    def memory_is_kept_only_for_resources_in_use(self) -> None:
        assert self.locks.in_use == len({name for ticket in self.here for name in ticket.resources})


test_random_joins_and_leaves_keep_the_law = ResourceLocksMachine.TestCase


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=examples(30), deadline=None)
@given(plans=st.lists(st.tuples(RESOURCES, st.booleans(), st.booleans()), max_size=12))
def test_every_task_gets_its_lock_in_order_or_leaves_and_no_lock_remains(
    backend: str, plans: list[tuple[list[str], bool, bool]]
) -> None:
    locks = ResourceLocks()
    served: list[int] = []
    inside: list[LockRequest] = []

    async def use(number: int, ticket: LockRequest) -> None:
        try:
            await ticket.wait_ready()
            assert not any(conflict(ticket, other) for other in inside)
            served.append(number)
            inside.append(ticket)
            await checkpoint()
            inside.remove(ticket)
        finally:
            ticket.release()

    async def use_and_be_cancelled(number: int, ticket: LockRequest) -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await checkpoint()
        ticket.release()

    async def main() -> None:
        tickets = [locks.request(resources, shared=shared) for resources, shared, _ in plans]
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                for number, (ticket, plan) in enumerate(zip(tickets, plans, strict=True)):
                    group.start_soon(use_and_be_cancelled if plan[2] else use, number, ticket)
        stayed = [number for number, plan in enumerate(plans) if not plan[2]]
        assert sorted(served) == stayed
        for place, late in enumerate(served):
            for early in served[place + 1 :]:
                assert early > late or not conflict(tickets[early], tickets[late])

    anyio.run(main, backend=backend)
    assert locks.in_use == 0


def test_a_ticket_without_resources_is_always_ready() -> None:
    locks = ResourceLocks()
    locks.request(["a"], shared=False)

    assert locks.request([], shared=False).is_ready


def test_a_resource_named_twice_is_one_resource() -> None:
    ticket = ResourceLocks().request(["a", "a"], shared=False)

    assert ticket.is_ready
    assert ticket.resources == ("a",)


@pytest.mark.parametrize("resources", ["file", b"file", [1], [None], [["a"]]])
def test_resources_that_are_not_names_are_refused_and_nothing_is_queued(resources: list[str]) -> None:
    locks = ResourceLocks()

    with pytest.raises(UsageError) as caught:
        locks.request(resources, shared=True)

    assert caught.value.field == "resources"
    assert locks.in_use == 0


def test_an_iterator_of_resources_that_raises_queues_nothing() -> None:
    def broken() -> Iterator[str]:
        yield "a"
        raise LookupError

    locks = ResourceLocks()
    with pytest.raises(LookupError):
        locks.request(broken(), shared=False)

    assert locks.in_use == 0


@pytest.mark.anyio
async def test_a_waiting_writer_is_not_overtaken_by_later_readers() -> None:
    locks = ResourceLocks()
    first = locks.request(["a"], shared=True)
    writer = locks.request(["a"], shared=False)
    late = locks.request(["a"], shared=True)

    assert (first.is_ready, writer.is_ready, late.is_ready) == (True, False, False)
    first.release()
    assert (writer.is_ready, late.is_ready) == (True, False)
    writer.release()
    with anyio.fail_after(30):
        await late.wait_ready()


@pytest.mark.anyio
async def test_a_waiting_ticket_is_woken_when_its_turn_comes() -> None:
    locks = ResourceLocks()
    first = locks.request(["a", "b"], shared=False)
    second = locks.request(["b", "c"], shared=False)
    woken = anyio.Event()

    async def wait() -> None:
        await second.wait_ready()
        woken.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert not woken.is_set()
            first.release()
    assert woken.is_set()


@pytest.mark.anyio
async def test_waiting_with_a_released_request_raises() -> None:
    locks = ResourceLocks()
    locks.request(["a"], shared=False)
    second = locks.request(["a"], shared=False)

    async def wait() -> None:
        with pytest.raises(UsageError):
            await second.wait_ready()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            second.release()
    with pytest.raises(UsageError):
        await second.wait_ready()


@pytest.mark.anyio
async def test_a_ticket_left_in_another_thread_wakes_the_one_who_waits_here() -> None:
    locks = ResourceLocks()
    first = locks.request(["a"], shared=False)
    second = locks.request(["a"], shared=False)

    thread = Thread(target=first.release)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(second.wait_ready)
            await anyio.wait_all_tasks_blocked()
            thread.start()
    thread.join(30)
    assert second.is_ready


def test_a_ticket_of_a_loop_that_is_closed_is_let_in_without_harm(anyio_backend: str) -> None:
    locks = ResourceLocks()
    first = locks.request(["a"], shared=False)
    second = locks.request(["a"], shared=False)

    async def give_up_waiting() -> None:
        with anyio.move_on_after(0):
            await second.wait_ready()

    anyio.run(give_up_waiting, backend=anyio_backend)
    first.release()

    assert second.is_ready
