"""A gate: a question that a turn waits for, and how it was settled.

Settling is synchronous and may happen in any thread; the first settlement stands.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from inspect import isroutine
from threading import Lock
from typing import Any, Literal, TypeAlias, cast
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from spindle.errors import (
    GateAbortedError,
    GateTimeoutError,
    InvalidGateError,
    InvalidGateResolutionError,
    InvalidToolArgsError,
    InvalidToolError,
)
from spindle.tools.schema.json_schema import RawSchema
from spindle.tools.schema.problems import Problem, kind_of, printable, quoted, refusal
from spindle.tools.schema.pydantic_errors import from_pydantic
from spindle.tools.schema.python_types import booleans_for_numbers, may_hold_boolean, node_kinds

Check: TypeAlias = Callable[[Any], Any]
"""Gives the value as the waiter gets it, or raises `InvalidToolArgsError`, whose `problems` say what is wrong."""

_NAME = "gate"


def check_for(schema: Any) -> Check:
    """Make the function that checks a value.

    Raises:
        InvalidGateError: That is no schema.
    """
    if isinstance(schema, Mapping):
        return _raw(cast("Mapping[str, Any]", schema))
    # Pydantic would take a function for its parameters and call it, and text for the name of a type.
    if isroutine(schema) or isinstance(schema, (str, bytes, int, float)):
        raise _no_schema(f"is {kind_of(schema)}; give a type that pydantic knows, or a JSON Schema as a dict")
    return _typed(schema)


def _raw(schema: Mapping[str, Any]) -> Check:
    try:
        return RawSchema(_of_any_value(schema), tool=_NAME).validate
    except InvalidToolError as error:
        raise _no_schema(str(error.__cause__ or error)) from error


def _of_any_value(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Say the same without a `type` at the root: arguments must be an object there, a gate takes any value."""
    conditions = schema.get("allOf", [])
    if "type" not in schema or not isinstance(conditions, list):
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword != "type"}
    return {**rest, "allOf": [*cast("list[Any]", conditions), {"type": schema["type"]}]}


def _typed(schema: Any) -> Check:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(schema)
        is_open = "open" in node_kinds(adapter.core_schema)
    except Exception as error:  # a type may raise what it likes while pydantic looks at it
        raise _no_schema(f"is no type that pydantic knows: {printable(str(error).partition(chr(10))[0])}") from error

    def parse(value: Any) -> Any:
        return adapter.validate_python(value, extra=None if is_open else "forbid")

    def check(value: Any) -> Any:
        try:
            parsed = parse(value)
        except ValidationError as error:
            raise refusal(_NAME, from_pydantic(error.errors(include_url=False), given=value)) from error
        # The guard speaks of arguments, but looks at a value of any kind.
        wrong = booleans_for_numbers(value, parse) if may_hold_boolean({"value": value}, None) else []
        if wrong:
            raise refusal(_NAME, wrong)
        return parsed

    return check


def _no_schema(reason: str) -> InvalidGateError:
    return InvalidGateError(f"a gate's schema {reason}", field="schema")


GateResult: TypeAlias = Literal["resolved", "rejected", "aborted", "timeout"]


@dataclass(frozen=True, kw_only=True, slots=True)
class GateInfo:
    """What observers are told of an open gate: a description, and nothing that could settle it."""

    id: str
    turn_id: str
    reason: str
    payload: Any
    """A copy: changing it changes nothing."""
    created_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class GateClosed:
    """A gate that was open is settled; told exactly once."""

    gate_id: str
    turn_id: str
    result: GateResult
    settled_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Settlement:
    """How a gate ended, for all who wait for it."""

    result: GateResult
    value: Any = None
    error: Exception | None = None
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class Gate:
    """A question that a turn waits for: `await ctx.wait_for(gate)` gives what `resolve` was given.

    `timeout_seconds` must be given; `None` says out loud that the wait may last for ever.

    Raises:
        InvalidGateError: A value is bad; `field` names it.
    """

    __slots__ = (
        "_check",
        "_lock",
        "_settlement",
        "_watchers",
        "created_at",
        "id",
        "payload",
        "reason",
        "schema",
        "timeout_seconds",
    )

    def __init__(
        self,
        reason: str,
        payload: Any = None,
        *,
        schema: Any = None,
        timeout_seconds: float | None,
        id: str | None = None,
    ) -> None:
        self.reason = _text(reason, field="reason")
        self.payload = payload
        self.schema = schema
        """What it is settled with, for whoever must ask in another form."""
        self.timeout_seconds = _seconds(timeout_seconds)
        self.id = uuid4().hex if id is None else _text(id, field="id")
        self.created_at = datetime.now(UTC)
        self._check: Check | None = None if schema is None else check_for(schema)
        self._lock = Lock()
        self._settlement: Settlement | None = None
        self._watchers: list[Callable[[], None]] = []

    @property
    def is_settled(self) -> bool:
        """Whether it was resolved, rejected or aborted, or is out of time."""
        return self._settlement is not None

    @property
    def settlement(self) -> Settlement | None:
        """How it ended, if it has."""
        return self._settlement

    def resolve(self, value: Any = None) -> None:
        """Let the waiter go on with `value`, as the schema gives it back; does nothing when it is settled.

        Raises:
            InvalidGateResolutionError: The value does not fit the schema; the gate stays open.
        """
        if self._settlement is None:
            self.settle(Settlement(result="resolved", value=self._accepted(value)))

    def reject(self, err: Exception) -> None:
        """Have the waiter raise `err`; does nothing when it is settled.

        Raises:
            InvalidGateResolutionError: That is nothing to raise; the gate stays open.
        """
        if self._settlement is not None:
            return
        given = cast("object", err)
        if not isinstance(given, Exception):
            raise InvalidGateResolutionError(
                f"the gate {quoted(self.id)} is rejected with an exception, not with {kind_of(given)}; "
                "give one, such as PermissionError('not today')",
                gate_id=self.id,
                field="err",
            )
        self.settle(Settlement(result="rejected", error=given))

    def abort(self) -> None:
        """Give the gate up: the waiter raises `GateAbortedError`; does nothing when it is settled."""
        self.settle(Settlement(result="aborted"))

    def settle(self, settlement: Settlement) -> None:
        """End the gate unless it has ended, and wake those who wait; the one place all settlements go through."""
        with self._lock:
            if self._settlement is not None:
                return
            self._settlement = settlement
            watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher()

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Have a function called once when the gate is settled, or now if it is; gives what takes it off again."""
        with self._lock:
            if self._settlement is None:
                self._watchers.append(watcher)
                return lambda: self._forget(watcher)
        watcher()
        return lambda: None

    def outcome(self) -> Any:
        """Give what the gate was resolved with.

        Raises:
            GateAbortedError: It was given up, or is still open.
            GateTimeoutError: Nobody settled it in time.
        """
        settlement = self._settlement
        if settlement is not None and settlement.result == "resolved":
            return settlement.value
        if settlement is not None and settlement.error is not None:
            raise settlement.error
        if settlement is not None and settlement.result == "timeout":
            raise GateTimeoutError(
                f"nobody settled the gate {quoted(self.reason)} within {self.timeout_seconds:g} s; "
                "ask again, or give it more timeout_seconds",
                gate_id=self.id,
            )
        raise GateAbortedError(f"the gate {quoted(self.reason)} was given up before anyone answered", gate_id=self.id)

    def _accepted(self, value: Any) -> Any:
        if self._check is None:
            return value
        try:
            return self._check(value)
        except InvalidToolArgsError as error:
            problems: tuple[Problem, ...] = error.problems
            said = "; ".join(_said(problem) for problem in problems)
            raise InvalidGateResolutionError(
                f"the gate {quoted(self.id)} does not take that value and stays open: {said}",
                gate_id=self.id,
                field=error.field,
                problems=problems,
            ) from error

    def _forget(self, watcher: Callable[[], None]) -> None:
        with self._lock:
            self._watchers = [each for each in self._watchers if each is not watcher]

    def __repr__(self) -> str:
        state = "open" if self._settlement is None else self._settlement.result
        return f"<Gate {self.id}: {quoted(self.reason)}, {state}>"


def _said(problem: Problem) -> str:
    where = f"{problem.path}: " if problem.path else ""
    hint = f"; {problem.hint}" if problem.hint else ""
    return f"{where}expected {problem.expected}, received {problem.received}{hint}"


def _text(value: object, *, field: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidGateError(f"a gate's {field} is text that is not empty, not {kind_of(value)}", field=field)
    return value


def _seconds_given(value: object) -> str:
    is_short = isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**9)
    return repr(value) if is_short else kind_of(value)


def _seconds(value: object) -> float | None:
    if value is None:
        return None
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < float(value) < math.inf:
            return value
    except OverflowError:
        pass
    raise InvalidGateError(
        f"a gate's timeout_seconds is a number above 0 that is not endless, and this is {_seconds_given(value)}; "
        "None says out loud that it may wait for ever",
        field="timeout_seconds",
    )
