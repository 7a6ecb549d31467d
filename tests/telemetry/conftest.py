"""An SDK for each test."""

from collections.abc import Iterator

import pytest

from tests.telemetry.collecting import Collected


@pytest.fixture
def sdk() -> Iterator[Collected]:
    collected = Collected()
    yield collected
    collected.close()
