"""What an executor is made of: a wrong part is named at once, not in the middle of a batch."""

import inspect
from typing import Any

import pytest

from spindle import Executor, ToolRegistry, TurnRunner
from spindle.errors import UsageError
from spindle.execution import ExecutorOptions


@pytest.mark.parametrize(
    "settings",
    [
        {"concurrency": 0},
        {"concurrency": True},
        {"timeout_seconds": 0},
        {"timeout_seconds": float("nan")},
        {"batch_timeout_seconds": -1},
        {"repair": "run"},
        {"backends": 5},
        {"reducers": 5},
        {"budget": 80_000},
        {"spool": "folder"},
        {"journal": "file.db"},
        {"transport": 5},
        {"approve": True},
        {"interceptors": 5},
        {"interceptors": [5]},
        {"interceptors": [Executor]},
        {"sinks": ["send_mail"]},
        {"retries": 3},
    ],
)
def test_bad_settings_are_refused_when_an_executor_is_made(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        Executor(ToolRegistry(), **settings)

    assert caught.value.field in settings


def test_a_turn_runner_takes_every_setting_of_an_executor() -> None:
    settings = set(inspect.signature(Executor).parameters) - {"registry"}

    assert settings - set(inspect.signature(TurnRunner).parameters) == set(ExecutorOptions.__annotations__)
