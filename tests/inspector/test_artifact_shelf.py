from pathlib import Path

import pytest

from spindle import Spool
from spindle.errors import UnknownItemError
from spindle.inspector.artifact_shelf import MAX_AGE_SECONDS, MAX_OPEN, ArtifactShelf

pytestmark = pytest.mark.anyio


class ShelfClock:
    """Time that moves when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["memory", "files"])
def spool(request: pytest.FixtureRequest, tmp_path: Path) -> Spool:
    return Spool.memory() if request.param == "memory" else Spool.files(tmp_path)


async def test_what_is_known_of_an_artifact_is_kept_until_it_is_replaced(spool: Spool) -> None:
    clock = ShelfClock()
    shelf = ArtifactShelf(spool, clock=clock)
    await spool.write("a", "one")
    first = await shelf.open("a")
    clock.now += MAX_AGE_SECONDS + 1
    assert await shelf.open("a") is first
    await spool.write("a", "a second one")
    assert await shelf.open("a") is first
    clock.now += MAX_AGE_SECONDS + 1
    second = await shelf.open("a")
    assert second.facts.byte_length == 12
    await spool.delete("a")
    clock.now += MAX_AGE_SECONDS + 1
    with pytest.raises(UnknownItemError):
        await shelf.open("a")


async def test_few_artifacts_are_kept_open(spool: Spool) -> None:
    clock = ShelfClock()
    shelf = ArtifactShelf(spool, clock=clock)
    for n in range(MAX_OPEN + 1):
        await spool.write(f"{n}", "x")
    first = await shelf.open("0")
    last = None
    for n in range(MAX_OPEN + 1):
        last = await shelf.open(f"{n}")
    assert await shelf.open(f"{MAX_OPEN}") is last
    assert await shelf.open("0") is not first
