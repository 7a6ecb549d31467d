"""A turn's scratch store, addressed by dot paths.

A stash is a tree of dicts and lists. Values are copied on write and on read, limited to the addressed part, so callers
never hold a reference into the store. Start with `Stash`; `FrozenStash` is its read-only form.
"""

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from types import MappingProxyType
from typing import Any, Final, NoReturn, Self, TypeAlias, TypeGuard, TypeVar, cast

from typing_extensions import TypeIs, override

from spindle.errors import InvalidStashError
from spindle.json_types import is_array, is_list_or_tuple, is_mapping

Path: TypeAlias = str | Sequence[Hashable]
"""`"a.b"`, or a list or tuple of keys, `["a.b", "c"]`, where a key may contain a dot and an `int` is a list index."""

MAX_SEGMENTS: Final = 100
MAX_NESTING: Final = 200
MAX_INDEX: Final = 9_999
"""Prevents `users.31415926` from padding a list until memory is full; numeric dict keys need a list path, as text."""

_Tree: TypeAlias = dict[Hashable, object]
_ABSENT: Final = object()
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_ATOMS: Final = frozenset({str, int, float, bool, bytes, complex, type(None)})


class _Readable:
    """The read methods of both stash classes."""

    __slots__ = ("_data",)
    _data: _Tree

    def get(self, path: Path, default: Any = None) -> Any:
        """Return a copy of the value at `path`, or `default` if there is none; `None` and `False` count as values.

        Raises:
            InvalidStashError: The path is malformed.
        """
        found = _find(self._data, _segments(path))
        return default if found is _ABSENT else _clone(found)

    def has(self, path: Path) -> bool:
        """Return whether `path` has a value; `None` counts as one."""
        return _find(self._data, _segments(path)) is not _ABSENT

    def keys(self) -> list[str | tuple[Hashable, ...]]:
        """List the paths of the leaves, each usable with `get`.

        Lists, `None` and objects are leaves; empty dicts have none. A path that cannot be written with dots is a tuple.
        """
        return [_spell_path(path) for path in _leaves(self._data, ())]

    def all(self) -> dict[Any, Any]:
        """Return a copy of the whole content."""
        return _clone(self._data)

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._data)} top-level keys>"


class Stash(_Readable):
    """A dot-path store that copies values on write and read; it has no indexing and is not thread-safe.

    Raises:
        InvalidStashError: `initial` is not a mapping, contains itself, or is nested too deeply.
    """

    __slots__ = ()

    def __init__(self, initial: "Mapping[Any, Any] | Stash | FrozenStash | None" = None) -> None:
        self._data = _tree_of(initial)

    def set(self, path: Path, value: object) -> None:
        """Store a copy of `value` at `path`, creating missing containers.

        A number in a dot path (an `int` in a list path) creates a list, padded with `None`. A scalar on the path is
        replaced.

        Raises:
            InvalidStashError: The path is malformed, a list, tuple or object on it cannot hold the next key, or `value`
                contains itself or is nested too deeply. The stash is unchanged.
        """
        segments = _segments(path)
        _put(self._data, segments, _clone_in(value), path)

    def delete(self, path: Path) -> bool:
        """Delete the value at `path` and return whether there was one; later items of a list move up."""
        segments = _segments(path)
        holder = _find(self._data, segments[:-1])
        if _find(holder, segments[-1:]) is _ABSENT:
            return False
        # `_find` only descends into dicts, lists and tuples.
        if _is_dict(holder):
            del holder[segments[-1]]
        elif is_array(holder) and (place := _index(segments[-1])) is not None:
            del holder[place]
        else:
            _refuse(path, "cannot delete an item of a tuple; set a new tuple instead")
        return True

    @staticmethod
    def is_stash(value: object) -> "TypeGuard[Stash]":
        """Return whether `value` is a writable stash."""
        return isinstance(value, Stash)


class FrozenStash(_Readable):
    """A read-only stash: `FrozenStash(mapping)` stores a copy; two with equal content are equal.

    Raises:
        InvalidStashError: As for `Stash`.
    """

    __slots__ = ()

    def __new__(cls, initial: "Mapping[Any, Any] | Stash | FrozenStash | None" = None) -> Self:
        """Store a copy of `initial`; return the shared `EMPTY` if there is no content, which saves memory."""
        if cls is FrozenStash and (initial is None or (isinstance(initial, dict) and not initial)):
            return cast("Self", EMPTY)
        return _build_frozen(cls, _tree_of(initial))

    @override
    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"FrozenStash is read-only; cannot set {name!r}")

    @override
    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"FrozenStash is read-only; cannot delete {name!r}")

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._data)

    @override
    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenStash):
            return self._data == other._data
        return self._data == other if isinstance(other, Mapping) else NotImplemented

    @override
    def __hash__(self) -> int:
        # Keys only: the values need not be hashable.
        return hash(frozenset(self._data))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    @override
    def __reduce__(self) -> tuple[type[Self], tuple[_Tree]]:
        return type(self), (self._data,)


_Frozen = TypeVar("_Frozen", bound=FrozenStash)


def _tree_of(initial: object) -> _Tree:
    if initial is None:
        return {}
    if isinstance(initial, _Readable):
        return initial.all()
    if is_mapping(initial):
        return _clone_in(dict(initial))
    raise InvalidStashError(
        f"Expected a mapping for the stash, got {type(initial).__name__}. Pass a dict, or nothing for an empty stash.",
        field="initial",
    )


def _segments(path: object) -> Sequence[Hashable]:
    if isinstance(path, str):
        parts: Sequence[Hashable] = path.split(".")
    elif is_list_or_tuple(path):
        parts = path
    else:
        raise InvalidStashError(
            f"Expected a stash path such as 'a.b', or a list of keys, got {type(path).__name__}.", field="path"
        )
    if not 0 < len(parts) <= MAX_SEGMENTS:
        raise InvalidStashError(
            f"Expected a stash path of 1 to {MAX_SEGMENTS} keys, got {len(parts)} keys.", field="path"
        )
    try:
        hash(tuple(parts))
    except TypeError as unhashable:
        raise InvalidStashError("The keys of a stash path must be hashable, such as str.", field="path") from unhashable
    return parts


def _index(segment: Hashable) -> int | None:
    """Parse a segment as a list index; return None if it is not one."""
    if isinstance(segment, str):
        return int(segment) if _INDEX.fullmatch(segment) else None
    return segment if isinstance(segment, int) and not isinstance(segment, bool) and segment >= 0 else None


def _is_dict(value: object) -> TypeIs[_Tree]:
    return isinstance(value, dict)


def _find(node: object, segments: Sequence[Hashable]) -> object:
    for segment in segments:
        if _is_dict(node):
            # Membership first: reading must not add keys to a defaultdict.
            node = node[segment] if segment in node else _ABSENT  # noqa: SIM401  `get` skips a subclass's own lookup
        elif is_list_or_tuple(node):
            place = _index(segment)
            node = node[place] if place is not None and place < len(node) else _ABSENT
        else:
            return _ABSENT
    return node


def _put(node: object, segments: Sequence[Hashable], value: object, path: Path) -> None:
    """Walk the existing containers, then attach the missing ones in one step, so that an error changes nothing."""
    for depth, segment in enumerate(segments, start=1):
        below = _find(node, (segment,))
        rest = segments[depth:]
        if not rest or below is _ABSENT or type(below) in _ATOMS:
            return _assign(node, segment, _grown(rest, value, path), path)
        if not (_is_dict(below) or is_list_or_tuple(below)):
            _refuse(path, f"the {type(below).__name__} at {segment!r} has no keys; delete it first, or replace it")
        node = below
    return None


def _grown(rest: Sequence[Hashable], value: object, path: Path) -> object:
    """Build the containers for the segments that do not exist yet."""
    for segment in reversed(rest):
        # A str in a list path is always a key; a dot path has no other way to write an index.
        numeric = _index(segment) is not None and (isinstance(path, str) or not isinstance(segment, str))
        holder: list[object] | _Tree = [] if numeric else {}
        _assign(holder, segment, value, path)
        value = holder
    return value


def _assign(holder: object, segment: Hashable, value: object, path: Path) -> None:
    if _is_dict(holder):
        holder[segment] = value
        return
    if not is_array(holder):
        _refuse(path, "a tuple cannot be changed; set a new tuple instead")
    place = _index(segment)
    if place is None:
        _refuse(path, f"expected a list index (0 or greater), got {segment!r}")
    if place > max(MAX_INDEX, len(holder)):
        _refuse(path, f"index {place} would pad the list too far; for a dict key, use a list path with text")
    holder.extend([None] * (place + 1 - len(holder)))
    holder[place] = value


def _refuse(path: Path, why: str) -> NoReturn:
    raise InvalidStashError(f"Stash path {path!r}: {why}.", field="path")


def _leaves(node: _Tree, above: tuple[Hashable, ...]) -> Iterator[tuple[Hashable, ...]]:
    for key, value in node.items():
        if _is_dict(value) and type(value) is dict:
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key)


def _spell_path(path: tuple[Hashable, ...]) -> str | tuple[Hashable, ...]:
    words = [key for key in path if isinstance(key, str) and "." not in key]
    return ".".join(words) if len(words) == len(path) else path


def _clone_in(value: Any) -> Any:
    """Copy `value`; reject one that contains itself, because reading it would never end."""
    _check_tree(value, [])
    return _clone(value)


def _check_tree(value: Any, above: list[int]) -> None:
    if type(value) in (dict, MappingProxyType):
        below: Iterable[object] = value.values()
    elif type(value) in (list, tuple):
        below = value
    else:
        return
    if id(value) in above:
        raise InvalidStashError("A stash value must not contain itself. Break the cycle.", field="value")
    if len(above) >= MAX_NESTING:
        raise InvalidStashError(
            f"A stash value may be nested at most {MAX_NESTING} levels deep. Flatten it.", field="value"
        )
    above.append(id(value))
    for item in below:
        _check_tree(item, above)
    above.pop()


def _clone(value: Any) -> Any:
    thing: object = value  # otherwise `kind` is untyped
    kind = type(thing)
    if kind in _ATOMS:
        return value
    if kind is dict or kind is MappingProxyType:
        return dict(zip(value, map(_clone, value.values()), strict=True))
    if kind is list:
        return list(map(_clone, value))
    if kind is tuple:
        return tuple(map(_clone, value))
    # An object that cannot be copied is stored by reference, so that reading it later does not fail either.
    with suppress(Exception):
        return deepcopy(value)
    return value


def _build_frozen(kind: type[_Frozen], data: _Tree) -> _Frozen:
    made = object.__new__(kind)
    object.__setattr__(made, "_data", data)
    return made


EMPTY: Final[FrozenStash] = _build_frozen(FrozenStash, {})
"""The shared stash without content."""
