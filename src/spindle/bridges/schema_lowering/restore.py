"""Restores a call's arguments to the tool's own schema: maps names back, and drops nulls that mean "omitted"."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from spindle.json_types import JsonObject, JsonValue, is_array, is_object

if TYPE_CHECKING:
    from jsonschema_rs import Validator

Compile: TypeAlias = Callable[[], "Validator"]


@dataclass(frozen=True, slots=True)
class Property:
    """One property as the model sees it."""

    own_name: str
    """The tool's own name for it."""
    drops_null: bool
    """Whether null means that the property was omitted."""
    shape: "Shape | None"
    is_ambiguous: bool = False
    """Whether null may also have its other meaning, if the object is valid only then."""


class Branch:
    """One alternative of a union, recognised by validating a value."""

    def __init__(self, lowered: Compile, own: Compile, shape: "Shape | None") -> None:
        self._compile_lowered, self._own, self.shape = lowered, own, shape

    @cached_property
    def _validators(self) -> "tuple[Validator, Validator]":
        return self._compile_lowered(), self._own()

    def matches_lowered(self, value: JsonValue) -> bool:
        """Return whether a value matches the alternative as the model sees it."""
        return self._validators[0].is_valid(value)

    def matches_source(self, value: JsonValue) -> bool:
        """Return whether a value matches the alternative in the tool's own schema."""
        return self._validators[1].is_valid(value)


class SourceValidator:
    """A lazily compiled validator for one of the tool's own subschemas."""

    def __init__(self, compiled: Compile) -> None:
        self._compiled = compiled

    @cached_property
    def _validator(self) -> "Validator":
        return self._compiled()

    def accepts(self, value: JsonValue) -> bool:
        """Return whether a value is valid."""
        return self._validator.is_valid(value)


@dataclass(slots=True)
class Shape:
    """How one value as the model sees it differs from the tool's own schema."""

    properties: dict[str, Property] = field(default_factory=dict[str, Property])
    others: "Shape | None" = None
    """The shape of additional properties."""
    prefix: "tuple[Shape | None, ...]" = ()
    items: "Shape | None" = None
    every: "list[Shape]" = field(default_factory=list["Shape"])
    """Shapes that apply in addition to this one."""
    unions: list[tuple[Branch, ...]] = field(default_factory=list[tuple[Branch, ...]])
    """Unions of shapes; one alternative of each applies in addition to this one."""
    reference: str | None = None
    validators: "tuple[SourceValidator, ...]" = ()
    """The tool's own constraints on the object, to decide about `unsure` properties."""

    @property
    def is_plain(self) -> bool:
        """Whether nothing has to be restored."""
        own = self.properties or self.others or any(self.prefix) or self.items
        return not (own or self.every or self.unions or self.reference)


class Restorer:
    """Applies a shape to arguments, returning new ones."""

    def __init__(self, root: Shape | None, definitions: Mapping[str, Shape | None]) -> None:
        self._root = root
        self._definitions = definitions

    def __call__(self, args: Mapping[str, JsonValue]) -> JsonObject:
        """Return the arguments in the form of the tool's own schema."""
        return _Restoring(self._definitions).restore(dict(args), self._root)


class _Restoring:
    """The restoration of one call's arguments."""

    def __init__(self, definitions: Mapping[str, Shape | None]) -> None:
        self._definitions = definitions
        # Memoised: trying an alternative restores nested values, which would otherwise take exponential time.
        self._tried: dict[tuple[int, int], Shape | None] = {}

    def restore(self, value: JsonValue, shape: Shape | None) -> JsonValue:
        if shape is not None and is_object(value):
            return self._object(value, self._resolve(value, shape))
        if shape is not None and is_array(value):
            return self._array(value, self._resolve(value, shape))
        return value

    def _resolve(self, value: JsonValue, shape: Shape) -> Shape:
        """Merge everything that applies to one value: references, parts, and the matching alternatives of unions."""
        referred = None if shape.reference is None else self._definitions.get(shape.reference)
        chosen = [self._choose(value, branches) for branches in shape.unions]
        resolved = Shape(shape.properties, shape.others, shape.prefix, shape.items, validators=shape.validators)
        for inner in [referred, *shape.every, *chosen]:
            if inner is not None:
                resolved = _merge(resolved, self._resolve(value, inner))
        return resolved

    def _choose(self, value: JsonValue, branches: tuple[Branch, ...]) -> Shape | None:
        key = id(value), id(branches)
        if key not in self._tried:
            self._tried[key] = self._find_branch(value, branches)
        return self._tried[key]

    def _object(self, value: JsonObject, shape: Shape) -> JsonObject:
        entries: list[tuple[str, str, JsonValue]] = []
        for name, inner in value.items():
            known = shape.properties.get(name)
            own, of = (name, shape.others) if known is None else (known.own_name, known.shape)
            entries.append((name, own, self.restore(inner, of)))
        nulls = {name: known for name, known in shape.properties.items() if name in value and value[name] is None}
        dropped = {name for name, known in nulls.items() if known.drops_null}
        unsure = {name for name, known in nulls.items() if known.is_ambiguous}
        likely = _without(entries, dropped)
        if not unsure:
            return likely
        tried = [likely, _without(entries, dropped - unsure), _without(entries, dropped | unsure)]
        return next((each for each in tried if all(own.accepts(each) for own in shape.validators)), likely)

    def _array(self, value: list[JsonValue], shape: Shape) -> list[JsonValue]:
        shapes = [*shape.prefix, *([shape.items] * (len(value) - len(shape.prefix)))]
        return [self.restore(inner, each) for inner, each in zip(value, shapes, strict=False)]

    def _count_mapped_names(self, value: JsonValue, shape: Shape | None) -> int:
        if shape is None or not is_object(value):
            return 0
        known = self._resolve(value, shape).properties
        return sum(name in known and known[name].own_name != name for name in value)

    def _find_branch(self, value: JsonValue, branches: tuple[Branch, ...]) -> Shape | None:
        """Return the shape of the alternative the model used: the first match that is also valid for the tool."""
        matching = [branch for branch in branches if branch.matches_lowered(value)]
        # An open object accepts mapped names too, but only the alternative that describes them can have produced them.
        matching.sort(key=lambda branch: self._count_mapped_names(value, branch.shape), reverse=True)
        for branch in matching:
            if branch.matches_source(self.restore(value, branch.shape)):
                return branch.shape
        if matching:
            return matching[0].shape
        shapes = [branch.shape for branch in branches if branch.shape is not None]
        if isinstance(value, list):
            return next((shape for shape in shapes if shape.prefix or shape.items), None)
        return next((shape for shape in shapes if set(value) <= set(shape.properties)), None)


def _without(entries: list[tuple[str, str, JsonValue]], left_out: set[str]) -> JsonObject:
    return {own: inner for name, own, inner in entries if name not in left_out}


def _merge(outer: Shape, inner: Shape) -> Shape:
    return Shape(
        properties={**inner.properties, **outer.properties},
        others=outer.others or inner.others,
        prefix=outer.prefix or inner.prefix,
        items=outer.items or inner.items,
        validators=(*outer.validators, *inner.validators),
    )
