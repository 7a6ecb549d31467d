"""What belongs to one event loop is not used on another."""

import anyio
import pytest

from spindle.concurrency import PerLoop


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_value_is_made_once_for_each_event_loop(backend: str) -> None:
    made = PerLoop(object)

    async def twice() -> tuple[object, object]:
        return made.get(), made.get()

    first, again = anyio.run(twice, backend=backend)
    other, _ = anyio.run(twice, backend=backend)

    assert first is again
    assert other is not first
