"""JSON values to bytes and back, so that what comes out equals what went in. No I/O."""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from math import isfinite
from typing import Any, cast

from spindle.errors import StorageError

MAX_DEPTH = 200
MAX_PARTS = 1_000_000


def encode_json(value: Any) -> bytes:
    """Write a JSON value as bytes; a tuple becomes a list.

    Raises:
        StorageError: It holds something else, holds itself, or is nested beyond 200.
    """
    problem = _problem(value)
    if problem is None:
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=dict)
            return text.encode("utf-8", "surrogatepass")
        except ValueError as error:  # an integer of more digits than Python writes
            problem = str(error)
    raise StorageError(
        f"storage keeps JSON values, and this is none: {problem}; give None, bool, int, float, str, list or dict",
        field="value",
    )


def decode_json(data: bytes) -> Any:
    """Read what `encode_json` wrote; every time a new value."""
    return json.loads(data.decode("utf-8", "surrogatepass"))


def _problem(value: Any) -> str | None:
    """Walk level by level, so that depth is no danger; a value that holds itself is found by its depth."""
    level: list[Any] = [value]
    parts = 0
    for _ in range(MAX_DEPTH + 1):
        problem = next((said for one in level if (said := _wrong(one))), None)
        if problem is not None or not level:
            return problem
        parts += len(level)
        level = list(islice((child for one in level for child in _children(one)), MAX_PARTS))
        if parts + len(level) > MAX_PARTS:  # the same list many times over, perhaps
            return f"it has more than {MAX_PARTS} parts"
    return f"it is nested beyond {MAX_DEPTH}, or holds itself"


def _wrong(value: object) -> str | None:
    if value is None or isinstance(value, (bool, int, str, list, tuple)):
        return None
    if isinstance(value, float):
        return None if isfinite(value) else f"{value!r} is no JSON number"
    if isinstance(value, Mapping):
        keys = cast("Mapping[object, object]", value)
        return next((f"a key is {type(key).__name__}" for key in keys if not isinstance(key, str)), None)
    return f"it holds {type(value).__name__}"


def _children(value: object) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from cast("Mapping[str, Any]", value).values()
    elif isinstance(value, (list, tuple)):
        yield from cast("list[Any]", value)
