"""Gates: a value that a turn waits for, its validation, and its settlement.

Settling is synchronous and may happen in any thread; the first settlement wins.
"""

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from inspect import isroutine
from threading import Lock
from typing import Any, Literal, TypeAlias, cast

from spindle.errors import (
    GateAbortedError,
    GateTimeoutError,
    InvalidGateError,
    InvalidGateResolutionError,
    InvalidToolArgsError,
    InvalidToolError,
)
from spindle.json_types import JsonValue, is_array
from spindle.text import quote_name, to_printable
from spindle.tools import schema as schema_tools
from spindle.tools.schema.base import Problem, build_refusal, describe_kind

Check: TypeAlias = Callable[[Any], object]
"""Returns the validated value, or raises `InvalidToolArgsError` with its `problems`."""

_NAME = "gate"


def build_check(schema: object) -> Check:
    """Build the function that validates a value.

    Raises:
        InvalidGateError: `schema` is not a schema.
    """
    if isinstance(schema, Mapping):
        return _build_json_check(cast("Mapping[str, JsonValue]", schema))
    # Pydantic would validate the parameters of a function and call it, and resolve text as a type name.
    if isroutine(schema) or isinstance(schema, (str, bytes, int, float)):
        raise _build_schema_error(
            f"must be a type that pydantic supports, or a JSON Schema as a dict; got {describe_kind(schema)}"
        )
    return _build_type_check(schema)


def _build_json_check(schema: Mapping[str, JsonValue]) -> Check:
    try:
        return schema_tools.RawSchema(_without_root_type(schema), tool=_NAME).validate
    except InvalidToolError as error:
        raise _build_schema_error(str(error.__cause__ or error)) from error


def _without_root_type(schema: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Return the same schema without a root `type`: `RawSchema` requires an object there, a gate takes any value."""
    conditions = schema.get("allOf", [])
    if "type" not in schema or not is_array(conditions):
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword != "type"}
    return {**rest, "allOf": [*conditions, {"type": schema["type"]}]}


def _build_type_check(schema: Any) -> Check:
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415  takes long to import

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(schema)
        is_open = "open" in schema_tools.collect_node_kinds(adapter.core_schema)
        find_boolean = schema_tools.build_boolean_finder(adapter.core_schema)
    except Exception as error:  # inspecting a custom type may raise anything
        raise _build_schema_error(
            f"is not a type that pydantic supports: {to_printable(str(error).partition(chr(10))[0])}"
        ) from error

    def parse(value: object) -> object:
        return adapter.validate_python(value, extra=None if is_open else "forbid")

    def check(value: Any) -> object:
        try:
            parsed = parse(value)
        except ValidationError as error:
            raise build_refusal(
                _NAME, schema_tools.translate_errors(error.errors(include_url=False), given=value)
            ) from error
        # Written for tool arguments, but works for any value.
        wrong = (
            find_boolean is not None and find_boolean(value) and schema_tools.find_booleans_for_numbers(value, parse)
        )
        if wrong:
            raise build_refusal(_NAME, wrong)
        return parsed

    return check


def _build_schema_error(reason: str) -> InvalidGateError:
    return InvalidGateError(f"Invalid gate: schema {reason}", field="schema")


GateResult: TypeAlias = Literal["resolved", "rejected", "aborted", "timeout", "suspended"]


@dataclass(frozen=True, kw_only=True, slots=True)
class GateInfo:
    """The description of an open gate that observers receive; it cannot settle the gate."""

    id: str
    turn_id: str
    reason: str
    payload: Any
    """A copy of the gate's payload."""
    created_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class GateClosed:
    """The event payload of a gate that was settled; emitted exactly once."""

    gate_id: str
    turn_id: str
    result: GateResult
    settled_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Settlement:
    """The result of a gate, shared by all its waiters."""

    result: GateResult
    value: Any = None
    error: Exception | None = None
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class Gate:
    """A value that a turn waits for: `await ctx.wait_for(gate)` returns the value passed to `resolve`.

    `timeout_seconds` is required; `None` explicitly allows an unlimited wait.

    Raises:
        InvalidGateError: An argument is invalid; `field` names it.
    """

    __slots__ = (
        "_check",
        "_lock",
        "_settlement",
        "_watchers",
        "created_at",
        "has_own_id",
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
        schema: object = None,
        timeout_seconds: float | None,
        id: str | None = None,
    ) -> None:
        self.reason = _check_text(reason, field="reason")
        self.payload = payload
        self.schema = schema
        """The schema of the value, for clients that build their own form."""
        self.timeout_seconds = _check_seconds(timeout_seconds)
        self.id = secrets.token_hex(16) if id is None else _check_text(id, field="id")
        self.has_own_id = id is not None
        """Whether the id was passed, so that it is the same when the handler is started again."""
        self.created_at = datetime.now(UTC)
        self._check: Check | None = None if schema is None else build_check(schema)
        self._lock = Lock()
        self._settlement: Settlement | None = None
        self._watchers: list[Callable[[], None]] = []

    @property
    def is_settled(self) -> bool:
        """Whether the gate was resolved, rejected or aborted, or has timed out."""
        return self._settlement is not None

    @property
    def settlement(self) -> Settlement | None:
        """The result of the gate, or `None` while it is open."""
        return self._settlement

    def resolve(self, value: object = None) -> None:
        """Settle the gate with a value, validated by the schema; do nothing if it is settled.

        Raises:
            InvalidGateResolutionError: The value does not match the schema; the gate stays open.
        """
        if self._settlement is None:
            self.settle(Settlement(result="resolved", value=self._validate(value)))

    def reject(self, err: Exception) -> None:
        """Settle the gate with an exception that its waiters raise; do nothing if it is settled.

        Raises:
            InvalidGateResolutionError: `err` is not an exception; the gate stays open.
        """
        if self._settlement is not None:
            return
        given = cast("object", err)
        if not isinstance(given, Exception):
            raise InvalidGateResolutionError(
                f"Expected an exception to reject the gate {quote_name(self.id)}, such as PermissionError('denied'), "
                f"got {describe_kind(given)}.",
                gate_id=self.id,
                field="err",
            )
        self.settle(Settlement(result="rejected", error=given))

    def abort(self) -> None:
        """Abort the gate: its waiters raise `GateAbortedError`; do nothing if it is settled."""
        self.settle(Settlement(result="aborted"))

    def settle(self, settlement: Settlement) -> None:
        """Store the settlement unless there is one, and call the watchers; every settlement goes through here."""
        with self._lock:
            if self._settlement is not None:
                return
            self._settlement = settlement
            watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher()

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call a function once when the gate is settled, or now if it is; return a function that removes it."""
        with self._lock:
            if self._settlement is None:
                self._watchers.append(watcher)
                return lambda: self._remove_watcher(watcher)
        watcher()
        return lambda: None

    def outcome(self) -> Any:
        """Return the value the gate was resolved with, or raise the exception it was rejected with.

        Raises:
            GateAbortedError: The gate was aborted, or is still open.
            GateTimeoutError: The gate was not settled in time.
        """
        settlement = self._settlement
        if settlement is not None and settlement.result == "resolved":
            return settlement.value
        if settlement is not None and settlement.error is not None:
            raise settlement.error
        if settlement is not None and settlement.result == "timeout":
            raise GateTimeoutError(
                f"The gate {quote_name(self.reason)} was not settled within {self.timeout_seconds:g} s; "
                "ask again, or raise timeout_seconds.",
                gate_id=self.id,
            )
        raise GateAbortedError(
            f"The gate {quote_name(self.reason)} was aborted before it was answered.", gate_id=self.id
        )

    def _validate(self, value: object) -> object:
        if self._check is None:
            return value
        try:
            return self._check(value)
        except InvalidToolArgsError as error:
            problems: tuple[Problem, ...] = error.problems
            said = "; ".join(_format_problem(problem) for problem in problems)
            raise InvalidGateResolutionError(
                f"Invalid value for the gate {quote_name(self.id)}, which stays open: {said}",
                gate_id=self.id,
                field=error.field,
                problems=problems,
            ) from error

    def _remove_watcher(self, watcher: Callable[[], None]) -> None:
        with self._lock:
            self._watchers = [each for each in self._watchers if each is not watcher]

    def __repr__(self) -> str:
        state = "open" if self._settlement is None else self._settlement.result
        return f"<Gate {self.id}: {quote_name(self.reason)}, {state}>"


def _format_problem(problem: Problem) -> str:
    where = f"{problem.path}: " if problem.path else ""
    hint = f"; {problem.hint}" if problem.hint else ""
    return f"{where}expected {problem.expected}, received {problem.received}{hint}"


def _check_text(value: object, *, field: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidGateError(
            f"Invalid gate: {field} must be non-empty text, got {describe_kind(value)}.", field=field
        )
    return value


def _format_seconds(value: object) -> str:
    is_short = isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**9)
    return repr(value) if is_short else describe_kind(value)


def _check_seconds(value: object) -> float | None:
    if value is None:
        return None
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < float(value) < math.inf:
            return value
    except OverflowError:
        pass
    raise InvalidGateError(
        f"Invalid gate: timeout_seconds must be a finite number above 0, or None for an unlimited wait, "
        f"got {_format_seconds(value)}.",
        field="timeout_seconds",
    )
