"""A nested value with its leaves replaced; what needs no replacing is given back as it is. No I/O."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias, cast

MAX_DEPTH = 200

Leaf: TypeAlias = Callable[[Any], Any]


def rebuilt(value: Any, leaf: Leaf, unreachable: Any) -> Any:
    """Give `value` with `leaf` of every leaf; a part that holds itself or is nested too deeply becomes `unreachable`.

    Reaches into mappings (keys too), lists, tuples, sets, dataclasses and pydantic models; nothing given is changed.
    """
    return _Rebuilding(leaf, unreachable).part(value)


class _Rebuilding:
    def __init__(self, leaf: Leaf, unreachable: Any) -> None:
        self._leaf = leaf
        self._unreachable = unreachable
        self._open: set[int] = set()

    def part(self, value: Any) -> Any:
        rebuild = _rebuilder(value)
        if rebuild is None:
            return self._leaf(value)
        if id(value) in self._open or len(self._open) >= MAX_DEPTH:
            return self._unreachable
        self._open.add(id(value))
        try:
            return rebuild(value, self.part)
        finally:
            self._open.discard(id(value))


def _rebuilder(value: object) -> "Callable[[Any, Leaf], Any] | None":
    if isinstance(value, (str, bytes, bytearray, memoryview, int, float, BaseException, type)) or value is None:
        return None
    if isinstance(value, Mapping):
        return _mapping
    if isinstance(value, (list, tuple, set, frozenset)):
        return _items
    if is_dataclass(value):
        return _dataclass
    return _model if hasattr(type(value), "__pydantic_fields__") else None


def _mapping(value: Mapping[Any, Any], part: Leaf) -> Any:
    new = {part(key): part(child) for key, child in value.items()}
    return value if len(new) == len(value) and _same(_pairs(new), _pairs(value)) else new


def _pairs(mapping: Mapping[Any, Any]) -> Iterator[Any]:
    for key, child in mapping.items():
        yield key
        yield child


def _items(value: Any, part: Leaf) -> Any:
    new = [part(child) for child in value]
    if _same(new, value):
        return value
    kind = cast("type[Any]", type(value))
    if hasattr(kind, "_make"):  # a named tuple
        return kind._make(new)
    kinds: tuple[Any, ...] = (list, tuple, set, frozenset)
    return next(plain for plain in kinds if issubclass(kind, plain))(new)


def _dataclass(value: Any, part: Leaf) -> Any:
    old = {field.name: getattr(value, field.name, None) for field in fields(value)}
    new = {name: part(child) for name, child in old.items()}
    if _same(new.values(), old.values()):
        return value
    # Neither its constructor, which may refuse or have other parameters, nor `copy`, which may give the same object.
    twin = object.__new__(cast("type[Any]", type(value)))
    for name, child in {**_attributes(value), **new}.items():
        object.__setattr__(twin, name, child)
    return twin


def _attributes(value: Any) -> dict[str, Any]:
    slots = [name for kind in type(value).__mro__ for name in _slots_of(kind)]
    found = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return found | getattr(value, "__dict__", {})


def _slots_of(kind: type) -> list[str]:
    slots: str | Iterable[str] = kind.__dict__.get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    return [name for name in names if name not in {"__dict__", "__weakref__"}]


def _model(value: Any, part: Leaf) -> Any:
    old: dict[str, Any] = {**value.__dict__, **(getattr(value, "__pydantic_extra__", None) or {})}
    new = {name: part(child) for name, child in old.items()}
    return value if _same(new.values(), old.values()) else value.model_copy(update=new)


def _same(new: Iterable[Any], old: Iterable[Any]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))
