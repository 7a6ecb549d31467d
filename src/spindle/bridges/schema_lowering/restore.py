"""Undoes in a call's arguments what lowering rewrote: names that were mapped, nulls that stand for nothing given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from jsonschema_rs import Validator

Compile: TypeAlias = Callable[[], "Validator"]


@dataclass(frozen=True, slots=True)
class Property:
    """One property as the model knows it."""

    own: str
    """The tool's name for it."""
    drops_null: bool
    """Whether null stands for a property that was not given."""
    shape: "Shape | None"
    unsure: bool = False
    """Whether null may stand for the other of the two as well, if only then the object fits."""


class Branch:
    """One of several shapes a value may have."""

    def __init__(self, told: Compile, own: Compile, shape: "Shape | None") -> None:
        self._told, self._own, self.shape = told, own, shape

    @cached_property
    def _validators(self) -> "tuple[Validator, Validator]":
        return self._told(), self._own()

    def is_told(self, value: Any) -> bool:
        """Say whether a value is one that the model was told of here."""
        return self._validators[0].is_valid(value)

    def is_own(self, value: Any) -> bool:
        """Say whether the tool takes a value here."""
        return self._validators[1].is_valid(value)


class SourceValidator:
    """One of the tool's own subschemas."""

    def __init__(self, compiled: Compile) -> None:
        self._compiled = compiled

    @cached_property
    def _validator(self) -> "Validator":
        return self._compiled()

    def takes(self, value: Any) -> bool:
        """Say whether a value fits it."""
        return self._validator.is_valid(value)


@dataclass(slots=True)
class Shape:
    """How the model sees one value, where that is not how the tool does."""

    properties: dict[str, Property] = field(default_factory=dict[str, Property])
    others: "Shape | None" = None
    """Of the values of a map."""
    prefix: "tuple[Shape | None, ...]" = ()
    items: "Shape | None" = None
    every: "list[Shape]" = field(default_factory=list["Shape"])
    """Shapes that hold beside this one."""
    unions: list[tuple[Branch, ...]] = field(default_factory=list[tuple[Branch, ...]])
    """Choices between shapes, of which one holds beside this one."""
    reference: str | None = None
    owns: "tuple[SourceValidator, ...]" = ()
    """Where properties are unsure: what the tool itself asks of the object."""

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to look at."""
        own = self.properties or self.others or any(self.prefix) or self.items
        return not (own or self.every or self.unions or self.reference)


class Restorer:
    """Applies a shape to arguments; what it is given is never changed."""

    def __init__(self, root: Shape | None, definitions: Mapping[str, Shape | None]) -> None:
        self._root = root
        self._definitions = definitions

    def __call__(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Give the arguments as the tool's own schema has them."""
        restored = _Restoring(self._definitions).restored(dict(args), self._root)
        return cast("dict[str, Any]", restored)


class _Restoring:
    """One call's arguments on their way back."""

    def __init__(self, definitions: Mapping[str, Shape | None]) -> None:
        self._definitions = definitions
        # Trying an alternative restores what is inside; done anew at every level, that would double with each.
        self._tried: dict[tuple[int, int], Shape | None] = {}

    def restored(self, value: Any, shape: Shape | None) -> Any:
        if shape is None or not isinstance(value, (dict, list)):
            return value
        shape = self._resolved(value, shape)
        if isinstance(value, dict):
            return self._object(cast("dict[str, Any]", value), shape)
        return self._array(cast("list[Any]", value), shape)

    def _resolved(self, value: Any, shape: Shape) -> Shape:
        """Put together all that holds for one value: references, parts, and the alternatives that were meant."""
        referred = None if shape.reference is None else self._definitions.get(shape.reference)
        chosen = [self._chosen(value, branches) for branches in shape.unions]
        resolved = Shape(shape.properties, shape.others, shape.prefix, shape.items, owns=shape.owns)
        for inner in [referred, *shape.every, *chosen]:
            if inner is not None:
                resolved = _merged(resolved, self._resolved(value, inner))
        return resolved

    def _chosen(self, value: Any, branches: tuple[Branch, ...]) -> Shape | None:
        key = id(value), id(branches)
        if key not in self._tried:
            self._tried[key] = self._meant(value, branches)
        return self._tried[key]

    def _object(self, value: dict[str, Any], shape: Shape) -> dict[str, Any]:
        entries: list[tuple[str, str, Any]] = []
        for name, inner in value.items():
            known = shape.properties.get(name)
            own, of = (name, shape.others) if known is None else (known.own, known.shape)
            entries.append((name, own, self.restored(inner, of)))
        nulls = {name: known for name, known in shape.properties.items() if name in value and value[name] is None}
        dropped = {name for name, known in nulls.items() if known.drops_null}
        unsure = {name for name, known in nulls.items() if known.unsure}
        likely = _without(entries, dropped)
        if not unsure:
            return likely
        tried = [likely, _without(entries, dropped - unsure), _without(entries, dropped | unsure)]
        return next((each for each in tried if all(own.takes(each) for own in shape.owns)), likely)

    def _array(self, value: list[Any], shape: Shape) -> list[Any]:
        shapes = [*shape.prefix, *([shape.items] * (len(value) - len(shape.prefix)))]
        return [self.restored(inner, each) for inner, each in zip(value, shapes, strict=False)]

    def _mapped_names(self, value: Any, shape: Shape | None) -> int:
        if shape is None or not isinstance(value, dict):
            return 0
        known = self._resolved(value, shape).properties
        return sum(name in known and known[name].own != name for name in cast("dict[str, Any]", value))

    def _meant(self, value: Any, branches: tuple[Branch, ...]) -> Shape | None:
        """Give the shape of the alternative that the model meant: of the first that fits, in the tool's eyes too."""
        told = [branch for branch in branches if branch.is_told(value)]
        # A free object takes mapped names too, but only the alternative that describes them can have meant them.
        told.sort(key=lambda branch: self._mapped_names(value, branch.shape), reverse=True)
        for branch in told:
            if branch.is_own(self.restored(value, branch.shape)):
                return branch.shape
        if told:
            return told[0].shape
        shapes = [branch.shape for branch in branches if branch.shape is not None]
        if isinstance(value, list):
            return next((shape for shape in shapes if shape.prefix or shape.items), None)
        return next((shape for shape in shapes if set(value) <= set(shape.properties)), None)


def _without(entries: list[tuple[str, str, Any]], left_out: set[str]) -> dict[str, Any]:
    return {own: inner for name, own, inner in entries if name not in left_out}


def _merged(outer: Shape, inner: Shape) -> Shape:
    return Shape(
        properties={**inner.properties, **outer.properties},
        others=outer.others or inner.others,
        prefix=outer.prefix or inner.prefix,
        items=outer.items or inner.items,
        owns=(*outer.owns, *inner.owns),
    )
