"""Checksums and keys of calls, fingerprints of tools, and callers: canonical JSON and stable hashes of it."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256

from spindle.errors import InvalidContextError, NotCanonicalError
from spindle.json_types import JsonObject, JsonValue
from spindle.tools.canonical import serialize, serialize_fast


def canonical_json(value: JsonValue) -> bytes:
    """Serialize `value` as canonical JSON: RFC 8785, but with exact digits for every integer.

    Raises:
        NotCanonicalError: The value contains NaN, an infinity, a cycle or a non-JSON value; `path` is its location.
    """
    data = serialize_fast(value)
    return serialize(value) if data is None else data


def checksum(tool: str, args: JsonValue) -> str:
    """Return the checksum of a call; the same tool with the same arguments always has the same one.

    Raises:
        NotCanonicalError: The arguments cannot be serialized as canonical JSON.
    """
    try:
        return sha256(canonical_json({"args": args, "tool": tool})).hexdigest()
    except NotCanonicalError as error:
        error.tool = tool
        raise


def fingerprint(name: str, description: str, input_schema: Mapping[str, JsonValue]) -> str:
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


def idempotency_key(session_id: str | None, turn_id: str | None, tool_call_id: str, checksum: str) -> str:
    """Return the key of one call of one turn: the same for a repeated request of that call, in every process.

    Raises:
        NotCanonicalError: A part cannot be written as canonical JSON.
    """
    # Canonical JSON of the four fields, assembled from cached parts: a turn has many calls.
    parts = (_canonical(checksum), _cached_canonical(session_id), _canonical(tool_call_id), _cached_canonical(turn_id))
    return sha256(b'{"checksum":%b,"session_id":%b,"tool_call_id":%b,"turn_id":%b}' % parts).hexdigest()


def _canonical(text: str) -> bytes:
    # A plain name needs no escapes; `type` because a subclass may behave differently.
    return b'"%b"' % text.encode() if type(text) is str and _is_plain(text) else canonical_json(text)


_is_plain = re.compile(r"[\w.:/-]*", re.ASCII).fullmatch
_cached_canonical = lru_cache(maxsize=64, typed=True)(canonical_json)


def serialize_caller(caller: Mapping[str, JsonValue] | None) -> bytes | None:
    """Serialize a caller, so that no tool can change what approvals and the journal are given.

    Raises:
        InvalidContextError: It is not a mapping of JSON values.
    """
    if caller is None:
        return None
    try:
        return canonical_json(dict(caller))
    except (NotCanonicalError, TypeError, ValueError) as error:
        message = f"ToolContext(caller=…): expected a mapping of JSON values, or None, got {caller!r:.80}."
        raise InvalidContextError(message, field="caller") from error


def parse_caller(caller: bytes | None) -> JsonObject | None:
    """Return what `serialize_caller` serialized."""
    return None if caller is None else json.loads(caller)
