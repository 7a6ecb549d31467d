"""Several gates at once."""

from typing import Any

import anyio
import pytest

from spindle import Gate
from spindle.mcp.client_requests import wait_all_gates

pytestmark = pytest.mark.anyio

GATES = [Gate(reason, timeout_seconds=60) for reason in ("one", "two", "three")]


async def test_all_are_open_at_the_same_time_and_answered_in_order() -> None:
    opened: list[str] = []
    all_open = anyio.Event()

    async def open_gate(gate: Gate) -> str:
        opened.append(gate.reason)
        if len(opened) == len(GATES):
            all_open.set()
        await all_open.wait()
        return gate.reason.upper()

    with anyio.fail_after(30):
        assert await wait_all_gates(open_gate, GATES) == ["ONE", "TWO", "THREE"]


@pytest.mark.parametrize("gates", [GATES, GATES[1:2]], ids=["several", "one"])
async def test_the_first_that_fails_ends_the_others_and_is_raised_as_it_is(gates: list[Gate]) -> None:
    ended: list[str] = []

    async def open_gate(gate: Gate) -> Any:
        if gate.reason == "two":
            raise PermissionError(gate.reason)
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(gate.reason)

    with anyio.fail_after(30), pytest.raises(PermissionError):
        await wait_all_gates(open_gate, gates)

    assert set(ended) <= {"one", "three"}


async def test_no_gates_are_no_wait() -> None:
    async def open_gate(gate: Gate) -> Any:
        raise AssertionError(gate)

    assert await wait_all_gates(open_gate, []) == []
