"""Nothing of a framework is imported, which takes seconds, where its tests are not run anyway."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bridges.frameworks.workshop import Workshop

NEED_A_FRAMEWORK = {"test_pydantic_ai.py", "test_langchain.py", "test_langgraph.py", "test_openai_agents.py"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_needless = config.getoption("markexpr") == "not slow" and collection_path.name in NEED_A_FRAMEWORK
    return True if is_needless else None


@pytest.fixture
def shop() -> Iterator[Workshop]:
    made = Workshop()
    try:
        yield made
    finally:
        made.let_go.set()
