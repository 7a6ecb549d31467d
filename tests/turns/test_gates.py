"""A gate by itself: what it is made of, and how it is settled."""

from dataclasses import dataclass
from threading import Barrier, Thread
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import TypedDict

from spindle.errors import GateAbortedError, InvalidGateError, InvalidGateResolutionError
from spindle.turns.gates import Gate, Settlement


class Decision(BaseModel):
    approved: bool
    limit: int = 10


@dataclass(frozen=True)
class Choice:
    name: str


class Form(TypedDict):
    name: str
    amount: float


def gate(**facts: Any) -> Gate:
    return Gate("may I?", timeout_seconds=5, **facts)


@pytest.mark.parametrize("reason", ["", "   ", None, 5, b"may I?"])
def test_reason_must_be_non_empty_text(reason: Any) -> None:
    with pytest.raises(InvalidGateError) as caught:
        Gate(reason, timeout_seconds=1)

    assert (caught.value.field, caught.value.code) == ("reason", "E_INVALID_INITIAL_TURN_GATE_VALUE")


@pytest.mark.parametrize(
    "seconds",
    [0, -1, -0.5, float("nan"), float("inf"), -float("inf"), True, "5", [], {}, 10**400, -(10**5000)],
    ids=lambda seconds: type(seconds).__name__,
)
def test_timeout_must_be_a_positive_finite_number(seconds: Any) -> None:
    with pytest.raises(InvalidGateError) as caught:
        Gate("may I?", timeout_seconds=seconds)

    assert caught.value.field == "timeout_seconds"


def test_timeout_is_required_and_may_be_none() -> None:
    untyped: Any = Gate

    with pytest.raises(TypeError):
        untyped("may I?")

    assert Gate("may I?", timeout_seconds=None).timeout_seconds is None


@pytest.mark.parametrize("id", ["", " ", 5, b"x"])
def test_id_must_be_non_empty_text(id: Any) -> None:
    with pytest.raises(InvalidGateError) as caught:
        gate(id=id)

    assert caught.value.field == "id"


def test_gate_has_a_unique_id_by_default() -> None:
    assert gate().id != gate().id
    assert gate(id="approval").id == "approval"


NO_SCHEMAS: list[Any] = [
    *("int", 5, True, b"x", object(), print, gate),
    *({"type": "str"}, {"type": 5}, {"$ref": "https://x.example/y"}, {"allOf": "no list", "type": "string"}),
    *({"pattern": "("}, {"enum": {1, 2}}),
]


@pytest.mark.parametrize("schema", NO_SCHEMAS)
def test_invalid_schema_is_rejected(schema: Any) -> None:
    with pytest.raises(InvalidGateError) as caught:
        gate(schema=schema)

    assert caught.value.field == "schema"


def test_schema_that_expands_to_a_huge_one_is_rejected() -> None:
    doubling: dict[str, Any] = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(20)}

    with pytest.raises(InvalidGateError):
        gate(schema={"$ref": "#/$defs/d0", "$defs": {**doubling, "d20": {"type": "string"}}})


TAKEN: list[tuple[Any, Any, Any]] = [
    (bool, True, True),
    (bool, "yes", True),
    (int, "5", 5),
    (Literal["yes", "no"], "no", "no"),
    (int | None, None, None),
    (list[int], ("1", 2), [1, 2]),
    (Decision, {"approved": "true"}, Decision(approved=True)),
    (Decision, Decision(approved=False), Decision(approved=False)),
    (Choice, {"name": "tea"}, Choice("tea")),
    (Form, {"name": "x", "amount": "1.5"}, {"name": "x", "amount": 1.5}),
    ({"type": "string"}, "yes", "yes"),
    ({"type": ["integer", "null"]}, None, None),
    ({"enum": ["yes", "no"]}, "no", "no"),
    ({"type": "array", "items": {"type": "integer"}}, [1, 2], [1, 2]),
    ({"type": "object", "properties": {"n": {"default": 3}}}, {}, {"n": 3}),
    ({"type": "array", "items": {"$ref": "#"}}, [[], [[]]], [[], [[]]]),
    ({"type": "string", "allOf": [{"minLength": 1}], "$defs": {"x": {}}}, "a", "a"),
    ({}, {"any": "thing"}, {"any": "thing"}),
]


@pytest.mark.parametrize(("schema", "given", "taken"), TAKEN, ids=repr)
def test_valid_value_is_returned_as_the_schema_parsed_it(schema: Any, given: Any, taken: Any) -> None:
    opened = gate(schema=schema)

    opened.resolve(given)

    assert opened.outcome() == taken


@pytest.mark.parametrize(
    ("schema", "given", "field"),
    [
        (bool, "perhaps", None),
        (int, True, None),
        (list[int], [1, True], "[1]"),
        (Decision, {}, "approved"),
        (Decision, {"approved": True, "aproved": True}, "aproved"),
        (Decision, {"approved": True, "limit": True}, "limit"),
        (Decision, {"approved": True, "limit": "many"}, "limit"),
        (Choice, {"name": 5}, "name"),
        ({"type": "string"}, 5, None),
        ({"type": "integer"}, "5", None),
        ({"type": "integer"}, True, None),
        ({"enum": ["yes", "no"]}, "maybe", None),
        ({"type": "array", "items": {"type": "integer"}}, [1, "2"], "[1]"),
        ({"type": "array", "items": {"$ref": "#"}}, [["x"]], "[0][0]"),
        ({"type": "object", "required": ["n"]}, {}, "n"),
        ({}, {1, 2}, None),
    ],
    ids=repr,
)
def test_invalid_value_is_rejected_and_the_gate_stays_open(schema: Any, given: Any, field: Any) -> None:
    opened = gate(schema=schema, id="approval")

    with pytest.raises(InvalidGateResolutionError) as caught:
        opened.resolve(given)

    assert not opened.is_settled
    assert (caught.value.gate_id, caught.value.field) == ("approval", field)
    assert caught.value.problems
    assert (caught.value.code, caught.value.status) == ("E_INVALID_TURN_GATE_RESOLUTION", 500)


def test_rejection_does_not_contain_the_value() -> None:
    opened = gate(schema=Decision)

    with pytest.raises(InvalidGateResolutionError) as caught:
        opened.resolve({"approved": "s3cret-value"})

    assert "s3cret" not in str(caught.value)


def test_gate_without_schema_returns_the_same_object() -> None:
    value, opened = object(), gate()

    opened.resolve(value)

    assert opened.outcome() is value


def test_rejected_gate_raises_the_same_exception() -> None:
    error, opened = PermissionError("no"), gate()

    opened.reject(error)

    with pytest.raises(PermissionError) as caught:
        opened.outcome()
    assert caught.value is error


@pytest.mark.parametrize("error", ["no", None, PermissionError, KeyboardInterrupt(), BaseException()], ids=repr)
def test_reject_requires_an_exception(error: Any) -> None:
    opened = gate()

    with pytest.raises(InvalidGateResolutionError) as caught:
        opened.reject(error)

    assert caught.value.field == "err"
    assert not opened.is_settled


def test_open_gate_has_no_outcome() -> None:
    with pytest.raises(GateAbortedError):
        gate().outcome()


ACTIONS = st.sampled_from(["resolve", "reject", "abort", "timeout"])


def act(opened: Gate, action: str, number: int) -> None:
    match action:
        case "resolve":
            opened.resolve(number)
        case "reject":
            opened.reject(ValueError(number))
        case "abort":
            opened.abort()
        case _:
            opened.settle(Settlement(result="timeout"))


@given(st.lists(ACTIONS, min_size=1, max_size=6))
def test_first_settlement_wins_and_later_ones_are_ignored(actions: list[str]) -> None:
    opened = gate()
    reported: list[int] = []
    opened.watch(lambda: reported.append(1))

    for number, action in enumerate(actions):
        act(opened, action, number)

    names = {"resolve": "resolved", "reject": "rejected", "abort": "aborted", "timeout": "timeout"}
    assert opened.settlement is not None
    assert opened.settlement.result == names[actions[0]]
    assert opened.settlement.value == (0 if actions[0] == "resolve" else None)
    assert reported == [1]


def test_settled_gate_does_not_validate_later_values() -> None:
    opened = gate(schema=bool)
    opened.resolve(True)

    opened.resolve("no boolean at all")
    opened.reject("no exception")  # pyright: ignore[reportArgumentType]  as an untyped caller would

    assert opened.outcome() is True


def test_one_of_many_settling_threads_wins_and_watchers_are_called_once() -> None:
    for _ in range(50):
        opened, start = gate(), Barrier(4)
        reported: list[int] = []
        opened.watch(lambda reported=reported: reported.append(1))

        def settle(number: int, opened: Gate = opened, start: Barrier = start) -> None:
            start.wait()
            opened.resolve(number)

        threads = [Thread(target=settle, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert reported == [1]
        assert opened.outcome() in range(4)


def test_watcher_can_be_removed_and_is_called_at_once_if_settled() -> None:
    opened = gate()
    reported: list[str] = []
    forget = opened.watch(lambda: reported.append("early"))
    forget()

    opened.abort()
    opened.watch(lambda: reported.append("late"))

    assert reported == ["late"]


def test_repr_does_not_contain_the_payload() -> None:
    opened = gate(payload="s3cret")
    assert "s3cret" not in repr(opened)
    assert "open" in repr(opened)
