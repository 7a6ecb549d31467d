import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle import Artifact, Err, Media, Ok
from spindle.errors import InvalidReducerError, ReducerAlreadyRegisteredError, UsageError
from spindle.execution.reducers import ReduceInfo, Reducer, ReducerRegistry, safe_reduce

INFO = ReduceInfo({"path": "a"}, 3)
LOG = Artifact.from_text("a")
DOT = Media.tool_generated(b"x", kind="image", mime_type="image/png", filename="x.png")


Reduce = Callable[[Ok | Err, ReduceInfo], Any]


def reducer(reduce: Reduce, tool_name: str = "t") -> Reducer:
    return Reducer(tool_name=tool_name, reduce=reduce)


def giving(anything: object) -> Reduce:
    return lambda result, info: anything


class Warnings:
    """Collects the arguments of `warn`."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, BaseException | None]] = []

    def __call__(self, message: str, error: BaseException | None) -> None:
        self.reported.append((message, error))


def test_a_reducer_is_made_from_a_function() -> None:
    made = Reducer(tool_name="terminal", reduce=lambda result, info: Ok(f"{info.turn_count}"))

    assert made.tool_name == "terminal"
    assert made.reduce(Ok("long"), INFO) == Ok("3")


def test_a_reducer_is_a_subclass_with_two_members() -> None:
    class First(Reducer):
        tool_name = "t"

        def reduce(self, result: Ok | Err, info: ReduceInfo) -> Ok | Err:
            return Ok(cast("Ok", result).value[:1])

    registry = ReducerRegistry()
    registry.register(First())

    found = registry.get("t")
    assert found is not None
    assert found.reduce(Ok("long"), INFO) == Ok("l")


def test_a_reducer_is_any_object_with_two_members() -> None:
    @dataclass(frozen=True)
    class Head:
        tool_name: str
        chars: int

        def reduce(self, result: Ok | Err, info: ReduceInfo) -> Ok | Err:
            return Ok(cast("Ok", result).value[: self.chars])

    registry = ReducerRegistry()
    head = Head("t", 2)
    registry.register(head)

    assert registry.get("t") is head


@pytest.mark.parametrize(
    "bad",
    [
        SimpleNamespace(tool_name="t"),
        SimpleNamespace(tool_name="t", reduce=1),
        SimpleNamespace(reduce=len),
        SimpleNamespace(tool_name="", reduce=len),
        SimpleNamespace(tool_name=3, reduce=len),
        None,
    ],
)
def test_a_value_that_is_not_a_reducer_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidReducerError):
        ReducerRegistry().register(bad)


@pytest.mark.parametrize("bad", [{"tool_name": "t"}, {"reduce": len}, {"tool_name": 3, "reduce": len}, {}])
def test_a_reducer_with_a_part_missing_cannot_be_made(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidReducerError):
        Reducer(**bad)


def test_a_second_reducer_for_one_tool_is_refused_and_both_are_named() -> None:
    registry = ReducerRegistry()
    first, second = reducer(lambda r, i: r), reducer(lambda r, i: r)
    registry.register(first)

    for incoming in (second, first):
        with pytest.raises(ReducerAlreadyRegisteredError) as caught:
            registry.register(incoming)
        assert isinstance(caught.value, UsageError)
        assert (caught.value.tool, caught.value.existing, caught.value.incoming) == ("t", repr(first), repr(incoming))
    assert registry.get("t") is first


def test_a_cleanup_takes_away_its_own_registration_only() -> None:
    registry = ReducerRegistry()
    first, second = reducer(lambda r, i: r), reducer(lambda r, i: r)
    clean_up = registry.register(first)
    clean_up()
    clean_up()
    assert registry.get("t") is None

    registry.register(second)
    clean_up()
    assert registry.get("t") is second


def test_a_late_cleanup_leaves_the_same_reducer_registered_anew() -> None:
    registry = ReducerRegistry()
    same = reducer(lambda r, i: r)
    clean_up = registry.register(same)
    clean_up()
    registry.register(same)

    clean_up()

    assert registry.get("t") is same


def test_a_registry_is_looked_up_by_the_exact_name_and_keeps_its_order() -> None:
    registry = ReducerRegistry()
    made = [reducer(lambda r, i: r, name) for name in ("b", "a", "c")]
    for one in made:
        registry.register(one)

    assert list(registry) == made
    assert len(registry) == 3
    assert "a" in registry
    assert "A" not in registry
    assert registry.get("a ") is None


def test_a_reducer_renamed_later_keeps_the_place_it_was_given() -> None:
    registry = ReducerRegistry()
    one = reducer(lambda r, i: r)
    clean_up = registry.register(one)
    one.tool_name = "other"

    assert registry.get("t") is one
    clean_up()
    assert len(registry) == 0


def test_a_reducer_receives_the_arguments_and_the_turn() -> None:
    seen: list[ReduceInfo] = []

    def look(result: Ok | Err, info: ReduceInfo) -> Ok | Err:
        seen.append(info)
        return result

    result = Ok("text")
    assert safe_reduce(reducer(look), result, INFO, warn=Warnings()) is result
    assert seen == [INFO]


def test_text_dropped_by_a_reducer_is_spooled() -> None:
    whole = Ok("a long text", structured={"exit_code": 0}, media=(DOT,), artifact=LOG, cost_usd=0.25, trusted=True)

    reduced = safe_reduce(reducer(lambda r, i: Ok("short")), whole, INFO, warn=Warnings())

    assert reduced == Ok("short", structured={"exit_code": 0}, media=(DOT,), artifact=LOG, cost_usd=0.25, trusted=True)


def test_a_reducer_may_reduce_what_is_structured_too() -> None:
    reduced = safe_reduce(
        reducer(lambda r, i: Ok("s", structured={"n": 1})), Ok("long", structured={"n": [1]}), INFO, warn=Warnings()
    )

    assert reduced == Ok("s", structured={"n": 1})


def test_a_reducer_decides_neither_trust_nor_cost() -> None:
    forged = Ok("s", trusted=True, cost_usd=0.0)

    reduced = safe_reduce(reducer(lambda r, i: forged), Ok("long", cost_usd=0.5), INFO, warn=Warnings())

    assert reduced == Ok("s", trusted=False, cost_usd=0.5)


def test_a_failure_keeps_its_code_when_its_text_is_reduced() -> None:
    failure = Err("timed_out", "a long story", field="f", retryable=True, cause="c")

    reduced = safe_reduce(reducer(lambda r, i: Err("denied", "late")), failure, INFO, warn=Warnings())

    assert reduced == Err("timed_out", "late", field="f", retryable=True, cause="c")


def raising(error: BaseException) -> Reduce:
    def reduce(result: Any, info: Any) -> Any:
        raise error

    return reduce


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), RecursionError(), SystemExit(3), asyncio.CancelledError(), GeneratorExit(), KeyboardInterrupt()],
)
def test_a_reducer_that_raises_leaves_the_result_and_is_reported(error: BaseException) -> None:
    warnings, result = Warnings(), Ok("text")

    assert safe_reduce(reducer(raising(error)), result, INFO, warn=warnings) is result
    assert [reported for _, reported in warnings.reported] == [error]


async def late(result: Any, info: Any) -> Any:
    return result


@pytest.mark.parametrize(
    ("result", "reduce"),
    [
        pytest.param(Ok("text"), giving(None), id="nothing"),
        pytest.param(Ok("text"), giving("t"), id="bare text"),
        pytest.param(Ok("text"), giving({"ok": True, "value": "t"}), id="a dict"),
        pytest.param(Ok("text"), giving(Ok), id="the class"),
        pytest.param(Ok("text"), giving(Ok(cast("Any", 7))), id="an Ok without a text"),
        pytest.param(Err("denied", "text"), giving(Err("denied", cast("Any", None))), id="an Err without a text"),
        pytest.param(Ok("text"), late, id="an awaitable"),
        pytest.param(Ok("text"), giving(Ok("text+")), id="longer"),
        pytest.param(Err("denied", "text"), giving(Err("denied", "text+")), id="a longer failure"),
        pytest.param(Err("denied", "text"), giving(Ok("fine")), id="a failure made a success"),
        pytest.param(Ok("text"), giving(Err("denied", "no")), id="a success made a failure"),
    ],
)
def test_a_reduction_that_cannot_be_used_leaves_the_result_and_is_reported(result: Ok | Err, reduce: Reduce) -> None:
    warnings = Warnings()

    assert safe_reduce(reducer(reduce), result, INFO, warn=warnings) is result
    assert len(warnings.reported) == 1


def test_a_reduction_of_equal_length_is_used() -> None:
    warnings = Warnings()

    assert safe_reduce(reducer(lambda r, i: Ok("TEXT")), Ok("text"), INFO, warn=warnings) == Ok("TEXT")
    assert not warnings.reported


results = st.one_of(
    st.builds(Ok, st.text(), structured=st.none() | st.integers(), cost_usd=st.none() | st.floats(0, 1)),
    st.builds(Err, st.just("denied"), st.text()),
)


@given(result=results, reduced=st.one_of(results, st.none(), st.text()))
def test_whatever_a_reducer_gives_back_the_result_never_grows_turns_or_gains_trust(
    result: Ok | Err, reduced: object
) -> None:
    kept = safe_reduce(reducer(lambda r, i: reduced), result, INFO, warn=Warnings())

    if isinstance(result, Ok):
        assert isinstance(kept, Ok)
        assert len(kept.value) <= len(result.value)
        assert kept.trusted is result.trusted
        assert kept.cost_usd == result.cost_usd
    else:
        assert isinstance(kept, Err)
        assert len(kept.error) <= len(result.error)
