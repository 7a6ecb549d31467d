"""Killed replicas, processes and databases: no acknowledged outcome is lost, and no effect happens twice.

`make soak` runs the same at full size.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journal.postgres_server import Server, running_server
from tests.soak.parts import PARTS, SMALL

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def anyio_backend() -> str:
    """The killed processes run on both event loops; this one only watches them."""
    return "asyncio"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of this file alone, because it is killed."""
    with running_server() as own:
        yield own


@pytest.mark.parametrize("name", PARTS)
async def test_killed_at_any_instant_every_promise_is_kept(name: str, server: Server, tmp_path: Path) -> None:
    result = await PARTS[name](server, tmp_path, SMALL, 17)

    result.check()
    assert min(result.counts[each] for each in ("asked", "kills", "acknowledged", "effects")) > 0
