"""Reducers shorten one tool's results, knowing their shape; nothing they do can harm a result."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, cast

from spindle.calls import Err, Ok
from spindle.errors import InvalidReducerError, ReducerAlreadyRegisteredError

Result: TypeAlias = Ok | Err
Warn: TypeAlias = Callable[[str, BaseException | None], object]
"""Told why a reduction was turned down, and what was raised, if anything was."""


@dataclass(frozen=True, slots=True)
class ReduceInfo:
    """What a reducer may know of the call whose result it shortens."""

    args: Any = None
    """As the tool was given them: a mapping or an object with attributes."""
    turn_count: int = 0


class ReducerLike(Protocol):
    """What a registry accepts: a `Reducer`, or any object with its two members."""

    @property
    def tool_name(self) -> str:
        """The one tool whose results it knows."""
        ...

    def reduce(self, result: Result, info: ReduceInfo) -> Result:
        """A shorter result that says the same, or `result` itself."""
        ...


class Reducer:
    """Shortens the results of one tool: made from a function, or a subclass with `tool_name` and `reduce`."""

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
                "A Reducer needs its function: pass reduce=…, or override `reduce` in a subclass.", field="reduce"
            )
        check_reducer(self)

    def reduce(self, result: Result, info: ReduceInfo) -> Result:
        """A shorter result that says the same, or `result` itself; synchronous, and the same for the same input."""
        return self._shorten(result, info)

    def __repr__(self) -> str:
        shorten: Any = getattr(self, "_shorten", None)
        how = f", reduce={getattr(shorten, '__qualname__', shorten)}" if shorten is not None else ""
        return f"{type(self).__name__}(tool_name={self.tool_name!r}{how})"


def check_reducer(reducer: object) -> str:
    """The name of the tool that `reducer` is for.

    Raises:
        InvalidReducerError: It has no such name, or nothing that could be called.
    """
    name = getattr(reducer, "tool_name", None)
    if not isinstance(name, str) or not name:
        raise InvalidReducerError(
            f"{type(reducer).__qualname__} is no reducer: its tool_name is {name!r}, and must be the name of a tool.",
            field="tool_name",
        )
    if not callable(getattr(reducer, "reduce", None)):
        raise InvalidReducerError(
            f"The reducer of {name!r} has no method reduce(result, info); {type(reducer).__qualname__} needs one.",
            tool=name,
            field="reduce",
        )
    return name


class ReducerRegistry:
    """At most one reducer for each tool, in the order they were registered."""

    def __init__(self) -> None:
        self._registered: dict[str, _Registration] = {}

    def register(self, reducer: ReducerLike) -> Callable[[], None]:
        """Add `reducer`, and give back a function that takes this registration away again, and no other.

        Raises:
            InvalidReducerError: It lacks `tool_name` or `reduce`.
            ReducerAlreadyRegisteredError: The tool has a reducer.
        """
        name = check_reducer(reducer)
        mine = _Registration(reducer)
        existing = self._registered.setdefault(name, mine)
        if existing is not mine:
            raise _clash(name, existing.reducer, reducer)

        def clean_up() -> None:
            # By identity: a late cleanup must not take away what somebody registered since.
            if self._registered.get(name) is mine:
                del self._registered[name]

        return clean_up

    def get(self, tool_name: str) -> ReducerLike | None:
        """The reducer of exactly that tool."""
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


def _clash(name: str, existing: ReducerLike, incoming: ReducerLike) -> ReducerAlreadyRegisteredError:
    there, new = repr(existing), repr(incoming)
    return ReducerAlreadyRegisteredError(
        f"The tool {name!r} has a reducer, {there}, and {new} wants its place; call the cleanup of the first before.",
        tool=name,
        existing=there,
        incoming=new,
    )


def safe_reduce(reducer: ReducerLike, result: Result, info: ReduceInfo, *, warn: Warn) -> Result:
    """`result` as `reducer` shortens it, or untouched when that would lose, lengthen or turn it; `warn` is told why."""
    try:
        reduced = cast("object", reducer.reduce(result, info))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 -- a reducer may not end a batch, not even by SystemExit
        warn(f"{_named(reducer)} raised {type(error).__name__}; its result stays as it was.", error)
        return result
    if reduced is result:
        return result
    problem = _problem(result, reduced)
    if problem:
        warn(f"{_named(reducer)} {problem}; its result stays as it was.", None)
        return result
    return _kept(result, cast("Result", reduced))


def _problem(result: Result, reduced: object) -> str | None:
    if inspect.isawaitable(reduced):
        if inspect.iscoroutine(reduced):
            reduced.close()  # or the interpreter would complain that nobody awaited it
        return "gave back an awaitable, and reducers are synchronous"
    if not isinstance(reduced, Ok | Err) or not isinstance(cast("object", _text(reduced)), str):
        return f"gave back {type(reduced).__name__}, and not an Ok or Err with a text"
    if reduced.ok is not result.ok:
        return f"turned an {type(result).__name__} into an {type(reduced).__name__}"
    if len(_text(reduced)) > len(_text(result)):
        return f"made {len(_text(result))} characters into {len(_text(reduced))}"
    return None


def _kept(result: Result, reduced: Result) -> Result:
    """The reduced text with everything else the call gave; a reducer decides neither cost nor trust."""
    if isinstance(result, Ok) and isinstance(reduced, Ok):
        structured = result.structured if reduced.structured is None else reduced.structured
        return replace(result, value=reduced.value, structured=structured)
    return replace(cast("Err", result), error=_text(reduced))


def _text(result: Result) -> str:
    return result.value if isinstance(result, Ok) else result.error


def _named(reducer: ReducerLike) -> str:
    return f"The reducer of {getattr(reducer, 'tool_name', None)!r} ({type(reducer).__qualname__})"
