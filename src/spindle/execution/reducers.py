"""Reducers, which shorten the results of one tool, their registry, and the checks that reject a bad reduction."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, overload

from spindle.calls import Err, Ok
from spindle.errors import InvalidReducerError, ReducerAlreadyRegisteredError
from spindle.execution.call_state import AdmittedCall, CallState
from spindle.json_types import JsonValue, untyped
from spindle.tools.arguments import copy_arguments

Result: TypeAlias = Ok | Err
Warn: TypeAlias = Callable[[str, BaseException | None], object]
"""Called with the reason why a reduction was rejected, and the exception, if there was one."""


@dataclass(frozen=True, slots=True)
class ReduceInfo:
    """Facts about the call whose result is reduced."""

    args: JsonValue = None
    """The arguments of the tool: a mapping or an object with attributes."""
    turn_count: int = 0


class ReducerLike(Protocol):
    """The two members that a registry requires of a reducer."""

    @property
    def tool_name(self) -> str:
        """The name of the tool whose results it reduces."""
        ...

    def reduce(self, result: Result, info: ReduceInfo) -> Result:
        """Return a shorter result with the same meaning, or `result` itself."""
        ...


class Reducer:
    """Reduces the results of one tool; built from a function, or subclassed with `tool_name` and `reduce`."""

    tool_name: str

    def __init__(
        self, tool_name: str | None = None, reduce: Callable[[Result, ReduceInfo], Result] | None = None
    ) -> None:
        if tool_name is not None:
            self.tool_name = tool_name
        if reduce is not None:
            self._shorten = reduce
        elif type(self).reduce is Reducer.reduce:
            raise InvalidReducerError(
                "A Reducer needs a function: pass reduce=…, or override `reduce` in a subclass.", field="reduce"
            )
        check_reducer(self)

    def reduce(self, result: Result, info: ReduceInfo) -> Result:
        """Return a shorter result with the same meaning, or `result` itself; synchronous and deterministic."""
        return self._shorten(result, info)

    def __repr__(self) -> str:
        shorten: Any = getattr(self, "_shorten", None)
        how = f", reduce={getattr(shorten, '__qualname__', shorten)}" if shorten is not None else ""
        return f"{type(self).__name__}(tool_name={self.tool_name!r}{how})"


def check_reducer(reducer: object) -> str:
    """Check a reducer and return the name of its tool.

    Raises:
        InvalidReducerError: It lacks `tool_name` or a callable `reduce`.
    """
    name = getattr(reducer, "tool_name", None)
    if not isinstance(name, str) or not name:
        raise InvalidReducerError(
            f"Invalid reducer {type(reducer).__qualname__}: tool_name must be the name of a tool, got {name!r}.",
            field="tool_name",
        )
    if not callable(getattr(reducer, "reduce", None)):
        raise InvalidReducerError(
            f"Invalid reducer {type(reducer).__qualname__} for {name!r}: it needs a method reduce(result, info).",
            tool=name,
            field="reduce",
        )
    return name


class ReducerRegistry:
    """A registry of at most one reducer per tool, in registration order."""

    def __init__(self) -> None:
        self._registered: dict[str, _Registration] = {}

    def register(self, reducer: ReducerLike) -> Callable[[], None]:
        """Register `reducer` and return a function that removes this registration only.

        Raises:
            InvalidReducerError: It lacks `tool_name` or `reduce`.
            ReducerAlreadyRegisteredError: The tool already has a reducer.
        """
        name = check_reducer(reducer)
        mine = _Registration(reducer)
        existing = self._registered.setdefault(name, mine)
        if existing is not mine:
            raise _build_conflict(name, existing.reducer, reducer)

        def clean_up() -> None:
            # By identity: a late cleanup must not remove a newer registration.
            if self._registered.get(name) is mine:
                del self._registered[name]

        return clean_up

    def get(self, tool_name: str) -> ReducerLike | None:
        """Return the reducer of a tool by its exact name, or `None`."""
        found = self._registered.get(tool_name)
        return found.reducer if found else None

    def __iter__(self) -> Iterator[ReducerLike]:
        return iter([registration.reducer for registration in self._registered.values()])

    def __len__(self) -> int:
        return len(self._registered)

    def __contains__(self, tool_name: object) -> bool:
        return tool_name in self._registered


@dataclass(frozen=True, slots=True, eq=False)
class _Registration:
    reducer: ReducerLike


def _build_conflict(name: str, existing: ReducerLike, incoming: ReducerLike) -> ReducerAlreadyRegisteredError:
    there, new = repr(existing), repr(incoming)
    return ReducerAlreadyRegisteredError(
        f"The tool {name!r} already has a reducer, {there}; remove it before you register {new}.",
        tool=name,
        existing=there,
        incoming=new,
    )


@overload
def safe_reduce(reducer: ReducerLike, result: Ok, info: ReduceInfo, *, warn: Warn) -> Ok: ...


@overload
def safe_reduce(reducer: ReducerLike, result: Err, info: ReduceInfo, *, warn: Warn) -> Err: ...


@overload
def safe_reduce(reducer: ReducerLike, result: Result, info: ReduceInfo, *, warn: Warn) -> Result: ...


def safe_reduce(reducer: ReducerLike, result: Result, info: ReduceInfo, *, warn: Warn) -> Result:
    """Return the reduced result; on an invalid reduction call `warn` with the reason and return `result` unchanged."""
    try:
        reduced = untyped(reducer.reduce(result, info))
    except BaseException as error:  # noqa: BLE001 -- a reducer must not end a batch, not even by SystemExit
        warn(f"{_describe_reducer(reducer)} raised {type(error).__name__}; the result was not reduced.", error)
        return result
    if reduced is result:
        return result
    problem = _find_problem(result, reduced)
    if problem or not isinstance(reduced, Ok | Err):
        warn(f"{_describe_reducer(reducer)} {problem}; the result was not reduced.", None)
        return result
    return _merge_reduced(result, reduced)


def _find_problem(result: Result, reduced: object) -> str | None:
    if inspect.isawaitable(reduced):
        if inspect.iscoroutine(reduced):
            reduced.close()  # avoids the "never awaited" warning
        return "returned an awaitable, but reducers are synchronous"
    if not isinstance(reduced, Ok | Err) or not isinstance(untyped(_text(reduced)), str):
        return f"returned {type(reduced).__name__}, expected an Ok or Err with text"
    if reduced.ok is not result.ok:
        return f"returned an {type(reduced).__name__} for an {type(result).__name__}"
    if len(_text(reduced)) > len(_text(result)):
        return f"returned {len(_text(reduced))} characters for {len(_text(result))}"
    return None


def _merge_reduced(result: Result, reduced: Result) -> Result:
    """Return `result` with the reduced text; a reducer cannot change cost, media or trust."""
    if isinstance(result, Err):
        return replace(result, error=_text(reduced), by="tool")
    structured = reduced.structured if isinstance(reduced, Ok) else None
    return replace(result, value=_text(reduced), structured=result.structured if structured is None else structured)


def _text(result: Result) -> str:
    return result.value if isinstance(result, Ok) else result.error


def _describe_reducer(reducer: ReducerLike) -> str:
    return f"The reducer of {getattr(reducer, 'tool_name', None)!r} ({type(reducer).__qualname__})"


def reduce_results(states: Sequence[CallState], reducers: ReducerRegistry) -> None:
    """Reduce the results of calls that ran, if their tools have reducers."""
    for state in states:
        if isinstance(state, AdmittedCall):
            _reduce_result(state, reducers)


def _reduce_result(state: AdmittedCall, reducers: ReducerRegistry) -> None:
    reducer = reducers.get(state.call.name)
    if reducer is None or state.handled is None or state.ctx.dry_run or state.is_from_record:
        return

    def warn(message: str, error: BaseException | None) -> None:
        state.warn(message, source="reducer", error=error)

    info = ReduceInfo(args=copy_arguments(state.arguments), turn_count=state.ctx.turn_count)
    state.reduced = safe_reduce(reducer, state.handled.result, info, warn=warn)
