"""Reading JSON, JSON5 and JSON Lines strictly."""

from typing import Any, Final, Literal, TypeAlias, get_args

import jiter

from spindle.errors import InvalidArtifactError
from spindle.extras import needs_extra

JsonFormat: TypeAlias = Literal["json", "json5", "jsonl", "ndjson"]

JSON_FORMATS: Final[tuple[JsonFormat, ...]] = get_args(JsonFormat)

MAX_JSON5_CHARS: Final = 256 * 1024
"""The JSON5 parser reads some 30 kB a second; beyond this it would keep a turn waiting."""


def parse_json(text: str) -> Any:
    """Read one strict JSON value; integers keep every digit, of equal keys the last one counts.

    Raises:
        ValueError: It is something else, NaN and infinities included.
    """
    try:
        return jiter.from_json(text.encode(), allow_inf_nan=False, cache_mode="keys")
    except UnicodeEncodeError as error:
        raise ValueError("half a surrogate pair is not text") from error


def is_json(text: str) -> bool:
    """Tell whether a text is one strict JSON value."""
    try:
        parse_json(text)
    except ValueError:
        return False
    return True


def parse_document(text: str) -> Any:
    """Read a whole document.

    Raises:
        InvalidArtifactError: It is not strict JSON.
    """
    try:
        return parse_json(text)
    except ValueError as error:
        raise InvalidArtifactError(f"the content is not one JSON document: {error}") from error


def parse_record(text: str, line: int) -> Any:
    """Read one line of JSON Lines.

    Raises:
        InvalidArtifactError: The line, named from 0 as in `cat`, is not strict JSON.
    """
    try:
        return parse_json(text)
    except ValueError as error:
        raise InvalidArtifactError(f"line {line} is not a JSON record: {error}") from error


def parse_json5(text: str) -> Any:
    """Read a JSON5 document, which has comments, bare keys, single quotes, NaN and infinities.

    Raises:
        InvalidArtifactError: It is not JSON5, is nested too deeply, or is larger than `MAX_JSON5_CHARS`.
    """
    if len(text) > MAX_JSON5_CHARS:
        raise InvalidArtifactError(
            f"JSON5 is read up to {MAX_JSON5_CHARS} characters, this has {len(text)}; write it as strict JSON, "
            "or read it with head, grep and cat"
        )
    with needs_extra("json"):
        import json5  # noqa: PLC0415 - an extra
    try:
        return json5.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidArtifactError(f"the content is neither JSON, JSON Lines nor JSON5: {reason}") from error
