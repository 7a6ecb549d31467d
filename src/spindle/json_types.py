"""Types of JSON values, the checks that narrow a value of unknown type, and rebuilding of values leaf by leaf.

`Any` in a signature means "not checked"; `JsonValue` says that a value is JSON and therefore checked where it is used.
A recursive alias would be more exact, but type checkers then demand a cast at each step into a document.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from inspect import isasyncgenfunction, isgeneratorfunction
from typing import Any, TypeAlias, cast

from typing_extensions import TypeIs

JsonValue: TypeAlias = Any
"""A value that JSON can express: an object, an array, text, a number, a boolean or None."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object as a dict."""


def is_object(value: object) -> TypeIs[JsonObject]:
    """Return whether a value is a JSON object as a dict."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeIs[list[JsonValue]]:
    """Return whether a value is a JSON array as a list."""
    return isinstance(value, list)


def is_list_or_tuple(value: object) -> TypeIs[list[JsonValue] | tuple[JsonValue, ...]]:
    """Return whether a value is a list or a tuple, both of which become a JSON array."""
    return isinstance(value, (list, tuple))


def is_mapping(value: object) -> TypeIs[Mapping[object, object]]:
    """Return whether a value is a mapping, whatever its keys and values are."""
    return isinstance(value, Mapping)


def is_iterable(value: object) -> TypeIs[Iterable[object]]:
    """Return whether a value can be iterated, whatever its items are."""
    return isinstance(value, Iterable)


def is_buffer(value: object) -> TypeIs[bytes | bytearray | memoryview]:
    """Return whether a value is bytes, mutable or a view of others included."""
    return isinstance(value, (bytes, bytearray, memoryview))


def is_callback(value: object) -> bool:
    """Return whether a value is a callback, sync or async; a call of a class or a generator function runs nothing."""
    if not callable(value) or isinstance(value, type):
        return False
    return not (isgeneratorfunction(value) or isasyncgenfunction(value))


_ATOMS = frozenset((str, int, bool, type(None)))


def copy_object(value: JsonObject) -> JsonObject:
    """Copy a JSON object with the objects and arrays in it."""
    return {name: part if part.__class__ in _ATOMS else _copy_part(part) for name, part in value.items()}


def _copy_part(value: JsonValue) -> JsonValue:
    kind = value.__class__
    if kind is dict:
        return copy_object(value)
    if kind is list:
        return [part if part.__class__ in _ATOMS else _copy_part(part) for part in value]
    return value


def untyped(value: object) -> object:
    """Return a value without its declared type, so that what an untyped caller passed can be checked."""
    return value


MAX_DEPTH = 200

Leaf: TypeAlias = Callable[[Any], object]


def map_leaves(value: object, leaf: Leaf, unreachable: object) -> Any:
    """Return `value` with `leaf` applied to every leaf; recursive or too deeply nested parts become `unreachable`.

    Descends into mappings (keys too), lists, tuples, sets, dataclasses and pydantic models; `value` is not modified.
    """
    return _LeafMapper(leaf, unreachable).part(value)


class _LeafMapper:
    def __init__(self, leaf: Leaf, unreachable: object) -> None:
        self._leaf = leaf
        self._unreachable = unreachable
        self._open: set[int] = set()

    def part(self, value: object) -> object:
        rebuild = _find_rebuilder(value)
        if rebuild is None:
            return self._leaf(value)
        if id(value) in self._open or len(self._open) >= MAX_DEPTH:
            return self._unreachable
        self._open.add(id(value))
        try:
            return rebuild(value, self.part)
        finally:
            self._open.discard(id(value))


def _find_rebuilder(value: object) -> "Callable[[Any, Leaf], object] | None":
    if isinstance(value, (str, bytes, bytearray, memoryview, int, float, BaseException, type)) or value is None:
        return None
    if isinstance(value, Mapping):
        return _rebuild_mapping
    if isinstance(value, (list, tuple, set, frozenset)):
        return _rebuild_items
    if is_dataclass(value):
        return _rebuild_dataclass
    return _rebuild_model if hasattr(type(value), "__pydantic_fields__") else None


def _rebuild_mapping(value: Mapping[object, object], part: Leaf) -> object:
    new = {part(key): part(child) for key, child in value.items()}
    return value if len(new) == len(value) and _same(_pairs(new), _pairs(value)) else new


def _pairs(mapping: Mapping[object, object]) -> Iterator[object]:
    for key, child in mapping.items():
        yield key
        yield child


def _rebuild_items(value: Any, part: Leaf) -> object:
    new = [part(child) for child in value]
    if _same(new, value):
        return value
    kind = type(untyped(value))
    make: Callable[[list[object]], object] | None = getattr(kind, "_make", None)
    if make is not None:  # a named tuple
        return make(new)
    plain: type[Any] = next(each for each in (list, tuple, set, frozenset) if issubclass(kind, each))
    return plain(new)


def _rebuild_dataclass(value: Any, part: Leaf) -> object:
    old = {field.name: getattr(value, field.name, None) for field in fields(value)}
    new = {name: part(child) for name, child in old.items()}
    if _same(new.values(), old.values()):
        return value
    # The constructor may reject the values or have other parameters, and `copy` may return the same object.
    twin = object.__new__(type(untyped(value)))
    for name, child in {**_attributes(value), **new}.items():
        object.__setattr__(twin, name, child)
    return twin


def _attributes(value: object) -> dict[str, object]:
    slots = [name for kind in type(value).__mro__ for name in _get_slots(kind)]
    found = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return found | getattr(value, "__dict__", {})


def _get_slots(kind: type) -> list[str]:
    slots: str | Iterable[str] = kind.__dict__.get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    return [name for name in names if name not in {"__dict__", "__weakref__"}]


def _rebuild_model(value: Any, part: Leaf) -> object:
    old: dict[str, object] = {**value.__dict__, **(getattr(value, "__pydantic_extra__", None) or {})}
    new = {name: part(child) for name, child in old.items()}
    return value if _same(new.values(), old.values()) else value.model_copy(update=new)


def _same(new: Iterable[object], old: Iterable[object]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))


_MANY_PARTS = 2_000
_LONG_TEXT = 1 << 18
_FEW_ITEMS, _SHORT_TEXT = 16, 1 << 10
_SCALARS = _ATOMS | {float}


def is_large(value: object) -> bool:
    """Return whether a JSON value has thousands of parts or very long texts; stops as soon as that is known."""
    if value.__class__ is list and _is_small(cast("list[object]", value)):
        return False
    if value.__class__ is dict and _is_small(cast("dict[object, object]", value).values()):
        return False
    parts, chars, waiting = 0, 0, [value]
    while waiting:
        each = waiting.pop()
        parts += 1
        if isinstance(each, (str, bytes)):
            chars += len(each)
        else:
            held = _get_parts(each)
            parts += len(held)
            if parts <= _MANY_PARTS:
                waiting.extend(held)
        if parts > _MANY_PARTS or chars > _LONG_TEXT:
            return True
    return False


def _is_small(items: Collection[object]) -> bool:
    """Return whether a list or the values of an object are only a few short texts and numbers, which most are."""
    if len(items) > _FEW_ITEMS:
        return False
    for each in items:
        kind = each.__class__
        if kind not in _SCALARS or (kind is str and len(cast("str", each)) > _SHORT_TEXT):
            return False
    return True


def _get_parts(value: object) -> Collection[object]:
    """Return the parts of a collection, a model or a dataclass; nothing for other values."""
    if isinstance(value, (list, tuple)):
        return cast("Collection[object]", value)
    if isinstance(value, dict):
        return cast("dict[object, object]", value).values()
    kind: Any = type(value)
    fields = getattr(kind, "__pydantic_fields__", None) or getattr(kind, "__dataclass_fields__", ())
    return [getattr(value, name, None) for name in fields]
