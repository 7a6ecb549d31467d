"""What every ready-made reducer needs: to read an argument, and to shorten a text but never to lengthen it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from spindle.calls import Ok


def argument(args: object, name: str) -> Any:
    """The argument of that name, of a mapping or of an object with attributes; `None` when it is not given."""
    if isinstance(args, Mapping):
        return cast("Mapping[str, Any]", args).get(name)
    return getattr(args, name, None)


def with_text(result: Ok, text: str) -> Ok:
    """`result` with `text` in the place of its own, or `result` itself when that is not longer."""
    return replace(result, value=text) if len(text) < len(result.value) else result
