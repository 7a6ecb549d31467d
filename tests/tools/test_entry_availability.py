import logging
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from spindle import Events
from spindle.events import Warned
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry


class Query(BaseModel):
    q: str = ""


def answer(args: object, ctx: object, meta: object) -> str:
    return "done"


def make(name: str, is_available: Callable[[], Any] | None = None, *, toolset: str | None = None) -> Tool:
    return Tool(
        name=name,
        description="A tool.",
        input_schema=Query,
        handler=answer,
        is_available=is_available,
        toolset=toolset,
    )


def breaks() -> bool:
    raise ConnectionError


class NoTruth:
    def __bool__(self) -> bool:
        raise ValueError


async def later() -> bool:
    return True


def promise() -> object:
    return later()


def observed() -> tuple[Events, list[Warned]]:
    events, warnings = Events(), list[Warned]()
    events.on("warning", warnings.append)
    return events, warnings


def test_a_tool_without_the_question_and_one_that_says_yes_are_available() -> None:
    registry = ToolRegistry([make("a"), make("b", lambda: True), make("c", lambda: False)])
    assert [tool.name for tool in registry.get_available()] == ["a", "b"]


@pytest.mark.parametrize(("answer", "expected"), [(1, True), ("yes", True), (0, False), (None, False), ([], False)])
def test_an_answer_counts_by_its_truth(answer: object, expected: bool) -> None:
    assert bool(ToolRegistry([make("a", lambda: answer)]).get_available()) is expected


def test_the_question_is_asked_each_time() -> None:
    answers = iter([True, False, True])
    registry = ToolRegistry([make("a", lambda: next(answers))])
    assert [len(registry.to_definitions()) for _ in range(3)] == [1, 0, 1]


def test_the_question_is_asked_before_any_filter() -> None:
    asked: list[str] = []
    registry = ToolRegistry([make("a", lambda: asked.append("a") or True)])
    assert registry.to_definitions(ToolFilter(allowed_tools=[])) == []
    assert asked == ["a"]


@pytest.mark.parametrize("ask", [breaks, NoTruth, promise], ids=["raises", "no truth", "awaitable"])
def test_a_tool_that_cannot_answer_is_unavailable_and_that_is_reported(ask: Callable[[], Any]) -> None:
    events, warnings = observed()
    registry = ToolRegistry([make("a", toolset="x"), make("broken", ask, toolset="x"), make("c", toolset="x")])

    assert [tool.name for tool in registry.get_available(events=events)] == ["a", "c"]
    assert [tool.name for tool in registry.get_for_toolset("x", events=events)] == ["a", "c"]
    assert [reported["name"] for reported in registry.to_definitions(events=events)] == ["a", "c"]
    registry.definitions_json(events=events)

    assert [warned.source for warned in warnings] == ["is_available"] * 4
    assert all("'broken'" in warned.message for warned in warnings)


def test_the_warning_carries_what_was_raised() -> None:
    events, warnings = observed()
    ToolRegistry([make("a", breaks)]).get_available(events=events)
    assert isinstance(warnings[0].error, ConnectionError)


def test_without_an_observer_the_log_gets_the_warning(caplog: pytest.LogCaptureFixture) -> None:
    registry = ToolRegistry([make("a", breaks)])
    with caplog.at_level(logging.WARNING, logger="spindle"):
        registry.get_available()
        registry.to_definitions(events=Events())
    assert [record.name for record in caplog.records] == ["spindle"] * 2


def test_an_interrupt_is_not_swallowed() -> None:
    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ToolRegistry([make("a", interrupted)]).get_available()


def test_a_question_may_change_the_registry_while_it_is_being_listed() -> None:
    registry = ToolRegistry()

    def leave() -> bool:
        registry.unregister("b")
        registry.register(make("c"), overwrite=True)
        return True

    registry.register_all([make("a", leave), make("b")])
    assert [tool.name for tool in registry.get_available()] == ["a", "b"]
    assert [reported["name"] for reported in registry.to_definitions()] == ["a", "c"]
