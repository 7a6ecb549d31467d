"""What a broken call may have meant: told to the model, never run."""

import re
from dataclasses import replace
from typing import Any, cast

from jiter import from_json

from spindle.calls import Err
from spindle.errors import InvalidToolArgsError
from spindle.tools.identity import canonical_json
from spindle.tools.schema import Schema

_MAX_SHOWN = 500
_FENCE = re.compile(r"^\s*```[a-z]*\s*|\s*```\s*$")
_TRAILING_COMMA = re.compile(r",\s*([}\]])")
_BARE_KEY = re.compile(r"([{,]\s*)([A-Za-z_]\w*)\s*:")


def explained(refused: Err, args: Any, schema: Schema) -> Err:
    """Add to a refusal what the call would have been, if a mechanical repair makes it valid."""
    text = args.decode("utf-8", "replace") if isinstance(args, bytes) else args
    if not isinstance(text, str):
        return refused
    repaired = _repaired(text)
    if repaired is None or not _fits(repaired, schema):
        return refused
    shown = canonical_json(repaired).decode()[:_MAX_SHOWN]
    hint = f"It was not run. If you meant this, send exactly it: {shown}"
    return replace(refused, error=f"{refused.error}\n{hint}")


def _repaired(text: str) -> dict[str, Any] | None:
    """Undo what models often do to JSON; an object that is cut off is never completed."""
    inner = _FENCE.sub("", text)
    start, end = inner.find("{"), inner.rfind("}")
    if start < 0 or end < start:
        return None
    inner = inner[start : end + 1]
    for attempt in (inner, _BARE_KEY.sub(r'\1"\2":', _TRAILING_COMMA.sub(r"\1", inner.replace("'", '"')))):
        try:
            value: Any = from_json(attempt.encode(), allow_inf_nan=False, catch_duplicate_keys=True)
        except ValueError:
            continue
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    return None


def _fits(arguments: dict[str, Any], schema: Schema) -> bool:
    try:
        schema.validator()(arguments, None)
    except InvalidToolArgsError:
        return False
    return True
