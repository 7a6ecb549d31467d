"""The `@query` decorator for artifact methods that a model may call, and the rendering of their results.

A query method is a coroutine method of an artifact class, decorated with `@query(name, description)`. Its JSON Schema
is derived from its signature, so a subclass adds a query by defining one method.
"""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import date, time
from enum import Enum
from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast, get_type_hints

from spindle.artifacts.readers import Match
from spindle.errors import ArtifactQueryError, UsageError
from spindle.json_types import JsonObject, JsonValue, is_list_or_tuple
from spindle.text import to_encodable

if TYPE_CHECKING:
    # The import takes 0.1 s, which only a query should cost.
    from pydantic import BaseModel, ValidationError


class Undefined(Enum):
    """The type of `UNDEFINED`."""

    UNDEFINED = "(undefined)"


UNDEFINED: Final = Undefined.UNDEFINED
"""An absent value; JSON's `null`, in contrast, is a value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """The maximum size of an answer to a model."""

    max_items: int = 200
    max_chars: int = 20_000
    max_line_chars: int = 2_000
    """Of a longer line both ends are shown; of one that `grep` finds, a quarter of this around the match."""


Render: TypeAlias = Callable[[Any], str]
"""Renders what a query returned."""


def render_result(value: object) -> str:
    """Render a query's result as text for a model."""
    if isinstance(value, Undefined):
        return value.value
    if isinstance(value, str):
        return value
    if is_list_or_tuple(value):
        return _serialise_list(value)
    if isinstance(value, Match):
        place = "" if value.column is None else f", char {value.column}"
        return f"{value.line}{place}: {value.text}"
    return _as_json(value)


def render_rows(rows: Sequence[object]) -> str:
    """Render records as compact JSON, one per line."""
    if not rows:
        return "(empty list)"
    return "\n".join(json.dumps(row, ensure_ascii=False, default=_to_jsonable) for row in rows)


def render_answer(
    value: object,
    bounds: Bounds,
    *,
    rest: Callable[[int], str],
    render: Render = render_result,
    from_end: bool = False,
    read_on: str | None = None,
) -> str:
    """Render a result within `bounds`; `rest(shown)` returns the hint on how to get the omitted items.

    The omitted items follow the first `shown` ones or, with `from_end`, precede the last ones. `read_on` is the hint on
    how to get the rest of an item that does not fit.
    """
    if is_list_or_tuple(value):
        return _render_list(value, bounds, rest, render, from_end=from_end, read_on=read_on)
    return _cut(to_encodable(render(value)), bounds, rest(0), from_end=from_end)


def _render_list(
    items: Sequence[object],
    bounds: Bounds,
    rest: Callable[[int], str],
    render: Render,
    *,
    from_end: bool,
    read_on: str | None,
) -> str:
    shown = _count_fitting(items[::-1] if from_end else items, bounds, render)
    kept = max(shown, 1)
    text = to_encodable(render(list(items[-kept:] if from_end else items[:kept])))
    if shown == 0 and items:
        which, others = ("last", "those before it") if from_end else ("first", "the next")
        inside = f"look inside this {which} item with artifact_grep; for {others}, {rest(1)}"
        return _cut(text, bounds, read_on or inside, from_end=from_end)
    if shown == len(items):
        return text
    return f"{text}\n[{shown} items shown, {_where(from_end=from_end)}; {rest(shown)}]"


def _where(*, from_end: bool) -> str:
    return "more come before" if from_end else "more follow"


def _count_fitting(items: Sequence[object], bounds: Bounds, render: Render) -> int:
    used = 0
    for count, item in enumerate(items[: bounds.max_items]):
        used += len(render([item])) + 1
        if used > bounds.max_chars + 1:
            return count
    return min(len(items), bounds.max_items)


def _cut(text: str, bounds: Bounds, rest: str, *, from_end: bool) -> str:
    if len(text) <= bounds.max_chars:
        return text
    shown = text[-bounds.max_chars :] if from_end else text[: bounds.max_chars]
    return f"{shown}\n[{bounds.max_chars} characters shown, {_where(from_end=from_end)}; {rest}]"


def _serialise_list(items: Sequence[object]) -> str:
    if not items:
        return "(empty list)"
    if all(isinstance(item, str | Match) for item in items):
        return "\n".join(render_result(item) for item in items)
    return _as_json(items)


def _as_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=_to_jsonable)


def _to_jsonable(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    if isinstance(value, set | frozenset):
        return sorted(cast("set[object]", value), key=str)
    return str(value)


Method = TypeVar("Method", bound=Callable[..., object])
Clamp: TypeAlias = Callable[[JsonObject, Bounds], JsonObject]
BoundName: TypeAlias = Literal["max_items", "max_chars"]
View: TypeAlias = Callable[[Any, Bounds], object]
"""Returns an object with the query's method that answers for an artifact as a model should see it."""
ReadOn: TypeAlias = Callable[[Mapping[str, JsonValue], Bounds], str | None]
"""Returns the hint on how to read on in an item that does not fit, from the model's arguments."""

_MARK = "__spindle_query__"


@dataclass(frozen=True, kw_only=True)
class Query:
    """One query that a model can run on an artifact."""

    name: str
    """The forged tool's name."""
    description: str
    method: str
    function: Callable[..., object] = field(repr=False)
    rest: str = "narrow the query"
    """A hint on how to get omitted items; `{next}` is the number of the first one."""
    clamp: Clamp | None = field(default=None, repr=False)
    """Lowers arguments so that no more is fetched than an answer can show."""
    hidden: Mapping[str, BoundName] = field(default_factory=dict[str, BoundName])
    """Parameters hidden from the model: each is set to this bound plus one, so that truncation can be detected."""
    render: Render = field(default=render_result, repr=False)
    from_end: bool = False
    """Whether a truncated answer keeps its last items instead of its first."""
    none_is_absent: bool = True
    """Whether `None` means an absent value rather than JSON's `null`."""
    extra_schema: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict[str, Mapping[str, JsonValue]])
    """Extra JSON Schema for a parameter, beyond what its type expresses."""
    choices: Mapping[str, Callable[[], Sequence[str]]] = field(default_factory=dict[str, Callable[[], Sequence[str]]])
    """The allowed texts of an optional parameter, resolved when a tool is forged."""
    view: View | None = field(default=None, repr=False)
    read_on: ReadOn | None = field(default=None, repr=False)

    @cached_property
    def arguments(self) -> "type[BaseModel]":
        """The arguments that a model may pass, as a pydantic model."""
        return _build_arguments_model(self)

    @cached_property
    def schema(self) -> Mapping[str, JsonValue]:
        """The arguments as JSON Schema: `properties`, `required` and, if types need them, `$defs`."""
        whole = self.arguments.model_json_schema()
        whole.setdefault("properties", {})
        for name, described in whole["properties"].items():
            whole["properties"][name] = _shorten_schema(described) | dict(self.extra_schema.get(name, {}))
        return {key: whole[key] for key in ("properties", "required", "$defs") if key in whole}

    def bind(self, args: Mapping[str, JsonValue], bounds: Bounds) -> JsonObject:
        """Validate a model's arguments and convert them to the method's, limited to what an answer can show.

        Raises:
            ArtifactQueryError: The arguments do not match the method's signature.
        """
        from pydantic import ValidationError  # noqa: PLC0415 - takes 0.1 s, which only a query should cost

        try:
            model = self.arguments.model_validate(dict(args))
        except ValidationError as error:
            raise ArtifactQueryError(f"{self.name}: {_describe_first_error(error)}", tool=self.name) from error
        # Not model_dump: it would convert a parameter that is a model or dataclass to a dict.
        bound = {name: getattr(model, name) for name in type(model).model_fields}
        bound |= {name: getattr(bounds, which) + 1 for name, which in self.hidden.items()}
        return self.clamp(bound, bounds) if self.clamp else bound

    async def run(self, artifact: object, args: Mapping[str, JsonValue], bounds: Bounds) -> Any:
        """Run the query on an artifact with a model's arguments.

        Raises:
            ArtifactQueryError: The arguments do not match the method's signature.
        """
        # A subclass that overrides the method decides itself what a model sees.
        is_overridden = getattr(type(artifact), self.method, None) is not self.function
        target = artifact if self.view is None or is_overridden else self.view(artifact, bounds)
        return await getattr(target, self.method)(**self.bind(args, bounds))


def query(
    name: str,
    description: str,
    *,
    rest: str = "narrow the query",
    clamp: Clamp | None = None,
    hidden: Mapping[str, BoundName] | None = None,
    render: Render = render_result,
    from_end: bool = False,
    none_is_absent: bool = True,
    extra_schema: Mapping[str, Mapping[str, JsonValue]] | None = None,
    choices: Mapping[str, Callable[[], Sequence[str]]] | None = None,
    view: View | None = None,
    read_on: ReadOn | None = None,
) -> Callable[[Method], Method]:
    """Mark an artifact's method as a query that a model can run through the tool `name`."""
    if not name or not description:
        raise UsageError("Expected a query to have a tool name and a description for the model", field="name")

    def mark(method: Method) -> Method:
        marked = Query(
            name=name,
            description=description,
            method=method.__name__,
            function=method,
            rest=rest,
            clamp=clamp,
            hidden=hidden or {},
            render=render,
            from_end=from_end,
            none_is_absent=none_is_absent,
            extra_schema=extra_schema or {},
            choices=choices or {},
            view=view,
            read_on=read_on,
        )
        setattr(method, _MARK, marked)
        return method

    return mark


def get_class_queries(cls: type) -> Mapping[str, Query]:
    """Return the queries of a class by tool name, those of its bases first; the most derived definition wins."""
    return _collect_queries(cls)


def get_queries(artifact: object) -> Mapping[str, Query]:
    """Return the queries that an object supports; empty unless it is an artifact."""
    return _collect_queries(artifact.__class__)


@lru_cache(maxsize=256)
def _collect_queries(cls: type) -> Mapping[str, Query]:
    found: dict[str, Query] = {}
    for ancestor in reversed(cls.__mro__):
        for member in vars(ancestor).values():
            marked = getattr(member, _MARK, None)
            if isinstance(marked, Query):
                found[marked.name] = marked
    return found


def _build_arguments_model(asked: Query) -> "type[BaseModel]":
    from pydantic import ConfigDict, create_model  # noqa: PLC0415 - as in bind

    hints = _parameter_hints(asked.function)
    fields: dict[str, Any] = {}
    for position, parameter in enumerate(inspect.signature(asked.function).parameters.values()):
        if position == 0 or parameter.name in asked.hidden:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UsageError(
                f"Query {asked.name} has *{parameter.name}, which a model cannot fill; declare each argument"
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints.get(parameter.name, Any), default)
    return create_model(asked.name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=True), **fields)


def _shorten_schema(described: JsonObject) -> JsonObject:
    """Return an equivalent schema that takes fewer tokens: models are shown it on every trip."""
    short = {key: value for key, value in described.items() if key != "title"}
    if not short.get("default", True):
        del short["default"]  # nothing, as a reader of the schema expects
    match short:
        case {"anyOf": [{"type": str(kind)} as given, {"type": "null"}]} if "enum" not in given:
            del short["anyOf"]
            return {**given, **short, "type": [kind, "null"]}
        case _:
            return short


def _parameter_hints(function: Callable[..., object]) -> dict[str, Any]:
    # The return type may be imported only for type checkers, so it is not resolved.
    parameters = {name: hint for name, hint in inspect.get_annotations(function).items() if name != "return"}
    return get_type_hints(SimpleNamespace(__annotations__=parameters), function.__globals__, include_extras=True)


def _describe_first_error(error: "ValidationError") -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "arguments"
    return f"{where}: {first['msg']}"
