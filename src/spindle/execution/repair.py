"""What a broken call may have meant: told to the model, never run."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from spindle.calls import Err
from spindle.errors import InvalidToolArgsError
from spindle.execution.job import Job
from spindle.tools.arguments import read_arguments
from spindle.tools.identity import canonical_json
from spindle.tools.masking import MASK, masked
from spindle.tools.schema import Schema

_MAX_TEXT = 100_000
_MAX_SHOWN = 2_000
_TRAILING_COMMA = re.compile(r",\s*([}\]])")
_BARE_KEY = re.compile(r"([{,]\s*)([A-Za-z_]\w*)\s*:")


def explained(refused: Err, job: Job, schema: Schema) -> Err:
    """Add to a refusal what the call would have been, if a mechanical repair makes it valid."""
    args, tool = job.call.args, job.entry.tool
    text = args.decode("utf-8", "replace") if isinstance(args, bytes) else args
    if not isinstance(text, str) or len(text) > _MAX_TEXT:
        return refused
    for repaired in _repairs(text, tool.name):
        if _fits(repaired, schema):
            shown = canonical_json(masked(repaired, tool.secret_fields)).decode()
            return replace(refused, error=f"{refused.error}\n{_hint(shown, is_masked=_has(repaired, tool))}")
    return refused


def _hint(shown: str, *, is_masked: bool) -> str:
    if len(shown) > _MAX_SHOWN:
        return f"It was not run. If you meant the object that begins like this, send it whole: {shown[:_MAX_SHOWN]}…"
    secret = f", with your own secret in the place of {MASK}" if is_masked else ""
    return f"It was not run. If you meant this, send exactly it{secret}: {shown}"


def _has(arguments: dict[str, Any], tool: Any) -> bool:
    return any(name in arguments for name in tool.secret_fields)


def _repairs(text: str, tool: str) -> Iterator[dict[str, Any]]:
    """Undo what models often do to JSON; an object that is cut off is never completed."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return
    alone = text[start : end + 1]
    tidy = _TRAILING_COMMA.sub(r"\1", alone)
    for candidate in (alone, tidy, _BARE_KEY.sub(r'\1"\2":', tidy.replace("'", '"'))):
        try:
            yield read_arguments(candidate, tool=tool, empty_ok=False)
        except InvalidToolArgsError:
            continue


def _fits(arguments: dict[str, Any], schema: Schema) -> bool:
    try:
        schema.validator()(arguments, None)
    except Exception:  # noqa: BLE001  a validator that fails does not say that it fits
        return False
    return True
