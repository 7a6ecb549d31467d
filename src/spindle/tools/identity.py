"""Names for calls and tools that are the same in every process: hashes of canonical JSON."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from spindle.errors import NotCanonicalError
from spindle.tools.canonical import render


def canonical_json(value: Any) -> bytes:
    """Write `value` as the one JSON text it has: RFC 8785, with every integer keeping its exact digits.

    Raises:
        NotCanonicalError: It holds NaN, an infinity, a cycle or something that is not JSON; `path` says where.
    """
    data = _quick_way(value)
    return render(value) if data is None else data


def checksum(tool: str, args: Any) -> str:
    """Name a call: the same tool with the same arguments always has the same checksum.

    Raises:
        NotCanonicalError: The arguments have no canonical JSON.
    """
    try:
        return sha256(canonical_json({"args": args, "tool": tool})).hexdigest()
    except NotCanonicalError as error:
        error.tool = tool
        raise


def fingerprint(name: str, description: str, input_schema: Mapping[str, Any]) -> str:
    """Name a tool's contract: it changes when what the model is told changes.

    Raises:
        NotCanonicalError: The schema has no canonical JSON.
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
    """Replace itself by the quick way on first use: its library takes longer to import than all of ours."""
    global _quick_way  # noqa: PLW0603
    from spindle.tools.fast_canonical import quick_agrees, quick_json  # noqa: PLC0415

    _quick_way = quick_json if quick_agrees() else _no_quick_way
    return _quick_way(value)


_quick_way: Callable[[Any], bytes | None] = _find_quick_way
