"""Checksums of calls and fingerprints of tools: hashes of canonical JSON that are stable across processes."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from spindle.errors import NotCanonicalError
from spindle.tools.canonical import serialize


def canonical_json(value: Any) -> bytes:
    """Serialize `value` as canonical JSON: RFC 8785, but with exact digits for every integer.

    Raises:
        NotCanonicalError: The value contains NaN, an infinity, a cycle or a non-JSON value; `path` is its location.
    """
    data = _quick_way(value)
    return serialize(value) if data is None else data


def checksum(tool: str, args: Any) -> str:
    """Return the checksum of a call; the same tool with the same arguments always has the same one.

    Raises:
        NotCanonicalError: The arguments cannot be serialized as canonical JSON.
    """
    try:
        return sha256(canonical_json({"args": args, "tool": tool})).hexdigest()
    except NotCanonicalError as error:
        error.tool = tool
        raise


def fingerprint(name: str, description: str, input_schema: Mapping[str, Any]) -> str:
    """Return the fingerprint of a tool's definition; it changes if the definition the model sees changes.

    Raises:
        NotCanonicalError: The schema cannot be serialized as canonical JSON.
    """
    contract = {"description": description, "input_schema": input_schema, "name": name}
    try:
        return sha256(canonical_json(contract)).hexdigest()
    except NotCanonicalError as error:
        error.tool = name
        raise


def _no_quick_way(_value: Any) -> None:
    return None


def _find_quick_way(value: Any) -> bytes | None:
    """Replace itself by the fast path on first use: that path's library takes longer to import than Spindle."""
    global _quick_way  # noqa: PLW0603
    from spindle.tools.fast_canonical import is_fast_path_correct, serialize_fast  # noqa: PLC0415

    _quick_way = serialize_fast if is_fast_path_correct() else _no_quick_way
    return _quick_way(value)


_quick_way: Callable[[Any], bytes | None] = _find_quick_way
