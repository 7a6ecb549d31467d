"""Which engine and which queue the settings choose, and what they refuse."""

import pytest

from spindle.engines import EngineSettings
from spindle.errors import UsageError


@pytest.mark.parametrize(
    ("url", "engine"),
    [
        ("temporal://127.0.0.1:7233", "temporal"),
        ("temporal://127.0.0.1:7233/shop", "temporal"),
        ("dbos+postgresql://u@127.0.0.1/d", "dbos"),
        ("DBOS+postgres://u@127.0.0.1/d", "dbos"),
    ],
)
def test_the_url_names_the_engine(url: str, engine: str) -> None:
    assert EngineSettings(url=url).engine == engine


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"url": "postgresql://u@127.0.0.1/d"}, "url"),
        ({"url": "127.0.0.1:7233"}, "url"),
        ({"worker_timeout_seconds": 0.0}, "worker_timeout_seconds"),
        ({"connect_seconds": float("nan")}, "connect_seconds"),
        ({"retention_seconds": -1.0}, "retention_seconds"),
        ({"default_queue": ""}, "queue"),
        ({"task_queues": {"shop": "_dbos_internal_queue"}}, "queue"),
    ],
)
def test_invalid_settings_are_refused_by_name(changes: dict[str, object], field: str) -> None:
    with pytest.raises(UsageError) as caught:
        EngineSettings(**({"url": "temporal://127.0.0.1"} | changes))  # pyright: ignore[reportArgumentType] - invalid on purpose

    assert caught.value.field == field


def test_a_toolset_has_its_own_queue_or_the_default_one() -> None:
    settings = EngineSettings(url="temporal://127.0.0.1", task_queues={"shop": "orders"})

    assert [settings.find_queue(toolset) for toolset in ("shop", "other", None)] == ["orders", "spindle", "spindle"]
    assert settings.queues == ("spindle", "orders")


def test_credentials_are_not_shown() -> None:
    assert "sk-1" not in repr(EngineSettings(url="temporal://127.0.0.1", api_key="sk-1"))
