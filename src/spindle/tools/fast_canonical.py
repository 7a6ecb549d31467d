"""A fast path of canonical JSON for values whose encoding a compiled library gets right, byte for byte."""

from types import NoneType
from typing import Any

from jsonschema_rs import canonical

from spindle.tools.canonical import render

_SMALLEST, _LARGEST = 1e-6, 2.0**53
_PLAIN = frozenset({str, int, bool, NoneType})


_BEYOND_BMP = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")


_write_quickly = canonical.json.to_string


def quick_json(value: Any) -> bytes | None:
    """Write an ordinary value; `None` for one that only the definition knows how to write, or to refuse."""
    try:
        # Writing comes first: it stops at cycles and great depth, which the look at the types would not survive.
        data = _write_quickly(value).encode()
        return data if _is_ordinary(value) and not _keys_may_be_misplaced(data) else None
    except (ValueError, RecursionError):
        return None


def _is_ordinary(value: Any) -> bool:
    """Tell whether `value` holds only what the quick writer spells as RFC 8785 does.

    It would also take decimals, enums and NaN, and it spells very small and very large floats its own way.
    """
    thing: object = value  # so that its type is known to be one
    kind = type(thing)
    if kind is dict:
        # Loops, because `all(…)` over a generator would double the cost of the whole quick way.
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
    """Tell whether code point order, which the quick writer uses, may differ from UTF-16 order.

    It takes a character of U+E000 to U+FFFF and one beyond; these bytes begin them in UTF-8, and stand nowhere else.
    """
    return (b"\xee" in data or b"\xef" in data) and any(lead in data for lead in _BEYOND_BMP)


_PROBE: dict[str, Any] = {
    "".join(map(chr, range(0x300))): [None, True, False, "", {}, [], ()],
    "\u2028\ud7ff\uffff": [0, -1, 2**53 + 1, -(2**63) - 1, 10**40],
    "b": [0.0, -0.0, 1.0, -2.5, 0.1, 1e-6, 0.00012345, 5e15, 2.0**53 - 1, 4503599627370495.5],
    "a": "\U0001f600\U0010ffff",
}


def quick_agrees() -> bool:
    """Tell whether the quick writer still spells as the definition does.

    Checksums outlive the process: a release of the library that spells anything anew must not change them.
    """
    try:
        return _write_quickly(_PROBE).encode() == render(_PROBE)
    except (TypeError, ValueError):
        return False
