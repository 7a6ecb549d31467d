"""A fast path of canonical JSON for values that a compiled library serializes correctly, byte for byte."""

from types import NoneType
from typing import Any

from jsonschema_rs import canonical

from spindle.tools.canonical import serialize

_SMALLEST, _LARGEST = 1e-6, 2.0**53
_PLAIN = frozenset({str, int, bool, NoneType})


_BEYOND_BMP = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")


_write_quickly = canonical.json.to_string


def serialize_fast(value: Any) -> bytes | None:
    """Serialize an ordinary value; return `None` for one that only `canonical.py` can serialize or reject."""
    try:
        # Serialize first: it stops at cycles and great depth, on which the type check would recurse endlessly.
        data = _write_quickly(value).encode()
        return data if _is_ordinary(value) and not _keys_may_be_misplaced(data) else None
    except (ValueError, RecursionError):
        return None


def _is_ordinary(value: Any) -> bool:
    """Return whether `value` holds only types that the fast serializer formats as RFC 8785 does.

    It also accepts decimals, enums and NaN, and formats very small and very large floats differently.
    """
    thing: object = value  # `Any` would make `kind` untyped
    kind = type(thing)
    if kind is dict:
        # Loops, because `all(…)` over a generator would double the cost of the whole fast path.
        for key, child in value.items():
            if type(key) is not str or (type(child) not in _PLAIN and not _is_ordinary(child)):
                return False
    elif kind is list or kind is tuple:
        for child in value:
            if type(child) not in _PLAIN and not _is_ordinary(child):
                return False
    elif kind is float:
        return _SMALLEST <= value < _LARGEST or -_LARGEST < value <= -_SMALLEST or value == 0
    else:
        return kind in _PLAIN
    return True


def _keys_may_be_misplaced(data: bytes) -> bool:
    """Return whether code point order, which the fast serializer uses, may differ from UTF-16 order.

    That requires a character of U+E000 to U+FFFF and one beyond; these bytes occur in UTF-8 only as their first bytes.
    """
    return (b"\xee" in data or b"\xef" in data) and any(lead in data for lead in _BEYOND_BMP)


_PROBE: dict[str, Any] = {
    "".join(map(chr, range(0x300))): [None, True, False, "", {}, [], ()],
    "\u2028\ud7ff\uffff": [0, -1, 2**53 + 1, -(2**63) - 1, 10**40],
    "b": [0.0, -0.0, 1.0, -2.5, 0.1, 1e-6, 0.00012345, 5e15, 2.0**53 - 1, 4503599627370495.5],
    "a": "\U0001f600\U0010ffff",
}


def is_fast_path_correct() -> bool:
    """Return whether the fast serializer still produces the same bytes as `canonical.py`.

    Checksums outlive the process: a new release of the library must not change them.
    """
    try:
        return _write_quickly(_PROBE).encode() == serialize(_PROBE)
    except (TypeError, ValueError):
        return False
