"""A turn's scratch store, addressed by dot paths.

A stash is a tree of dicts and lists. What goes in and what comes out is copied, and only the part that was addressed,
so nobody holds a piece of the store in their hands. Start with `Stash`; `FrozenStash` is the same to read.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from types import MappingProxyType
from typing import Any, Final, NoReturn, Self, TypeAlias, TypeGuard, TypeVar, cast

from typing_extensions import override

from spindle.errors import InvalidStashError

Path: TypeAlias = str | Sequence[Hashable]
"""`"a.b"`, or a list or tuple of keys, `["a.b", "c"]`, where a key may hold a dot and an `int` is a place in a list."""

MAX_SEGMENTS: Final = 100
MAX_NESTING: Final = 200
MAX_INDEX: Final = 9_999
"""`users.31415926` must not fill memory with empty places; keys that are numbers go into a list path, as text."""

_ABSENT: Final = object()
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_ATOMS: Final = frozenset({str, int, float, bool, bytes, complex, type(None)})


class _Readable:
    """The questions both stashes answer."""

    __slots__ = ("_data",)
    _data: dict[Hashable, Any]

    def get(self, path: Path, default: Any = None) -> Any:
        """Give a copy of what is at `path`, or `default` when nothing is; `None`, `0`, `""` and `False` are something.

        Raises:
            InvalidStashError: That is no path.
        """
        found = _find(self._data, _segments(path))
        return default if found is _ABSENT else _clone(found)

    def has(self, path: Path) -> bool:
        """Say whether anything is at `path`; `None` is something."""
        return _find(self._data, _segments(path)) is not _ABSENT

    def keys(self) -> list[str | tuple[Hashable, ...]]:
        """List the paths of the leaves, each fit for `get`.

        Lists, `None` and objects are leaves; empty dicts have none. A path that dots cannot spell is a tuple.
        """
        return [_spelled(path) for path in _leaves(self._data, ())]

    def all(self) -> dict[Any, Any]:
        """Give a copy of everything."""
        return _clone(self._data)

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._data)} top-level keys>"


class Stash(_Readable):
    """A dot-path store that copies on the way in and out; it has no indexing and promises nothing to threads.

    Raises:
        InvalidStashError: `initial` is not a mapping, or holds itself, or is nested too deeply.
    """

    __slots__ = ()

    def __init__(self, initial: "Mapping[Any, Any] | Stash | FrozenStash | None" = None) -> None:
        self._data = _tree_of(initial)

    def set(self, path: Path, value: Any) -> None:
        """Put a copy of `value` at `path`, and make what is missing on the way.

        A number in a dot path (an `int` in a list path) makes a list and pads it with `None`. A plain value in the way
        is replaced.

        Raises:
            InvalidStashError: That is no path, or a list, tuple or object in the way cannot take it, or `value` holds
                itself or is nested too deeply. The stash is unchanged.
        """
        segments = _segments(path)
        _put(self._data, segments, _clone_in(value), path)

    def delete(self, path: Path) -> bool:
        """Remove what is at `path`, and say whether anything was; the later items of a list move up."""
        segments = _segments(path)
        holder = _find(self._data, segments[:-1])
        if _find(holder, segments[-1:]) is _ABSENT:
            return False
        if isinstance(holder, tuple):
            _refuse(path, "a tuple cannot lose an item; set the whole tuple anew")
        # What is no dict and no tuple but has an item at that place is a list.
        del holder[segments[-1] if isinstance(holder, dict) else _index(segments[-1])]
        return True

    @staticmethod
    def is_stash(value: object) -> "TypeGuard[Stash]":
        """Say whether `value` is a stash that can be written."""
        return isinstance(value, Stash)


class FrozenStash(_Readable):
    """A stash that is read only: `FrozenStash(mapping)` keeps a copy; two of the same content are equal.

    Raises:
        InvalidStashError: As for `Stash`.
    """

    __slots__ = ()

    def __new__(cls, initial: "Mapping[Any, Any] | Stash | FrozenStash | None" = None) -> Self:
        """Keep a copy of `initial`; without content the one `EMPTY` is given, so a thousand empty ones cost nothing."""
        if cls is FrozenStash and (initial is None or (isinstance(initial, dict) and not initial)):
            return cast("Self", EMPTY)
        return _holding(cls, _tree_of(initial))

    @override
    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a FrozenStash is read only; {name!r} cannot be set")

    @override
    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a FrozenStash is read only; {name!r} cannot be deleted")

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
        # By the keys alone: what they hold need not be hashable.
        return hash(frozenset(self._data))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    @override
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(self), (self._data,)


_Frozen = TypeVar("_Frozen", bound=FrozenStash)


def _tree_of(initial: object) -> dict[Hashable, Any]:
    if initial is None:
        return {}
    if isinstance(initial, _Readable):
        return initial.all()
    if isinstance(initial, Mapping):
        return _clone_in(dict(cast("Mapping[Hashable, Any]", initial)))
    raise InvalidStashError(
        f"a stash is made of a mapping, not of {type(initial).__name__}; give a dict, or nothing for an empty stash",
        field="initial",
    )


def _segments(path: object) -> Sequence[Hashable]:
    if isinstance(path, str):
        parts: Sequence[Hashable] = path.split(".")
    elif isinstance(path, list | tuple):
        parts = cast("Sequence[Hashable]", path)
    else:
        raise InvalidStashError(
            f"a stash path is text like 'a.b' or a list of keys, not {type(path).__name__}", field="path"
        )
    if not 0 < len(parts) <= MAX_SEGMENTS:
        raise InvalidStashError(f"a stash path has 1 to {MAX_SEGMENTS} keys, this one has {len(parts)}", field="path")
    try:
        hash(tuple(parts))
    except TypeError as unhashable:
        raise InvalidStashError("the keys of a stash path must be hashable, like text", field="path") from unhashable
    return parts


def _index(segment: Hashable) -> int | None:
    """Read a segment as a place in a list."""
    if isinstance(segment, str):
        return int(segment) if _INDEX.fullmatch(segment) else None
    return segment if isinstance(segment, int) and not isinstance(segment, bool) and segment >= 0 else None


def _find(node: Any, segments: Sequence[Hashable]) -> Any:
    for segment in segments:
        if isinstance(node, dict):
            # Membership first: a defaultdict must not grow because somebody looked.
            node = cast("dict[Hashable, Any]", node)[segment] if segment in node else _ABSENT
        elif isinstance(node, list | tuple):
            items = cast("Sequence[Any]", node)
            place = _index(segment)
            node = items[place] if place is not None and place < len(items) else _ABSENT
        else:
            return _ABSENT
    return node


def _put(node: Any, segments: Sequence[Hashable], value: Any, path: Path) -> None:
    """Walk as far as containers go, then hang the missing rest on in one piece, so that a refusal changes nothing."""
    for depth, segment in enumerate(segments, start=1):
        below = _find(node, (segment,))
        rest = segments[depth:]
        if not rest or below is _ABSENT or type(below) in _ATOMS:
            return _assign(node, segment, _grown(rest, value, path), path)
        if not isinstance(below, dict | list | tuple):
            _refuse(path, f"the {type(below).__name__} at {segment!r} has no keys; delete it first, or set it whole")
        node = cast("Any", below)
    return None


def _grown(rest: Sequence[Hashable], value: Any, path: Path) -> Any:
    """Build the containers for the segments that lead nowhere yet."""
    for segment in reversed(rest):
        # In a list path text is always a key; in a dot path there is no other way to say a number.
        numeric = _index(segment) is not None and (isinstance(path, str) or not isinstance(segment, str))
        holder: Any = [] if numeric else {}
        _assign(holder, segment, value, path)
        value = holder
    return value


def _assign(holder: Any, segment: Hashable, value: Any, path: Path) -> None:
    if isinstance(holder, dict):
        holder[segment] = value
        return
    if not isinstance(holder, list):
        _refuse(path, "a tuple cannot be changed; set the whole tuple anew")
    items = cast("list[Any]", holder)
    place = _index(segment)
    if place is None:
        _refuse(path, f"{segment!r} is no place in a list; use a number from 0")
    if place > max(MAX_INDEX, len(items)):
        _refuse(path, f"place {place} would pad the list too far; numbers used as keys go into a list path, as text")
    items.extend([None] * (place + 1 - len(items)))
    items[place] = value


def _refuse(path: Path, why: str) -> NoReturn:
    raise InvalidStashError(f"stash path {path!r}: {why}", field="path")


def _leaves(node: Mapping[Hashable, Any], above: tuple[Hashable, ...]) -> Iterator[tuple[Hashable, ...]]:
    for key, value in node.items():
        if type(value) is dict:
            yield from _leaves(cast("dict[Hashable, Any]", value), (*above, key))
        else:
            yield (*above, key)


def _spelled(path: tuple[Hashable, ...]) -> str | tuple[Hashable, ...]:
    if all(isinstance(key, str) and "." not in key for key in path):
        return ".".join(cast("tuple[str, ...]", path))
    return path


def _clone_in(value: Any) -> Any:
    """Copy `value`, and refuse what is no tree: reads would never end."""
    _check_tree(value, [])
    return _clone(value)


def _check_tree(value: Any, above: list[int]) -> None:
    if type(value) in (dict, MappingProxyType):
        below: Any = value.values()
    elif type(value) in (list, tuple):
        below = value
    else:
        return
    if id(value) in above:
        raise InvalidStashError("a stash holds trees, and this value holds itself; break the cycle", field="value")
    if len(above) >= MAX_NESTING:
        raise InvalidStashError(f"a stash holds values nested at most {MAX_NESTING} deep; flatten it", field="value")
    above.append(id(value))
    for item in below:
        _check_tree(item, above)
    above.pop()


def _clone(value: Any) -> Any:
    kind = cast("type[Any]", type(value))
    if kind in _ATOMS:
        return value
    if kind is dict or kind is MappingProxyType:
        return dict(zip(value, map(_clone, value.values()), strict=True))
    if kind is list:
        return list(map(_clone, value))
    if kind is tuple:
        return tuple(map(_clone, value))
    # A class may refuse to be copied in any way it likes. Then it is kept by reference, and a later read never fails.
    with suppress(Exception):
        return deepcopy(value)
    return value


def _holding(kind: type[_Frozen], data: dict[Hashable, Any]) -> _Frozen:
    made = object.__new__(kind)
    object.__setattr__(made, "_data", data)
    return made


EMPTY: Final[FrozenStash] = _holding(FrozenStash, {})
"""The stash that everything without content shares."""
