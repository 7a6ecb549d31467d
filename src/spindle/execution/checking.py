"""Whether an executor's settings are what they should be."""

import math
from collections.abc import Mapping
from typing import Any

from spindle.errors import UsageError
from spindle.tools.registry import ToolRegistry

_PARTS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "backends": (("network", "files"), "Backends(…), such as Backends.local(root)"),
    "reducers": (("get",), "a ReducerRegistry"),
    "budget": (("total",), "Budget(chars=…)"),
    "spool": (("write", "read", "delete"), "a Spool, such as Spool.files(path)"),
    "journal": (("begin", "finish"), "a Journal, such as Journal.sqlite(path)"),
    "transport": (("execute",), "a transport, which has execute(request, cancel)"),
    "approve": (("__call__",), "an async function of an ApprovalRequest"),
    "sinks": (("judge",), "a SinkPolicy"),
    "retries": (("wait_seconds",), "Retries(…)"),
}
"""What each part of an executor can do, whoever made it, and what to give."""


def checked_settings(
    registry: object, concurrency: object, timeout_seconds: Any, batch_timeout_seconds: Any, repair: object
) -> None:
    """Refuse settings that would only fail in the middle of a batch.

    Raises:
        UsageError: Names the first bad one.
    """
    if not ToolRegistry.is_tool_registry(registry):
        raise UsageError(f"an Executor needs a ToolRegistry, got {type(registry).__name__}", field="registry")
    if type(concurrency) is not int or concurrency < 1:
        raise UsageError(f"concurrency must be a whole number of at least 1, got {concurrency!r}", field="concurrency")
    for field, value in (("timeout_seconds", timeout_seconds), ("batch_timeout_seconds", batch_timeout_seconds)):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if value is not None and not (is_number and value > 0 and math.isfinite(value)):
            raise UsageError(f"{field} must be a number above 0, or None for no limit; got {value!r}", field=field)
    if repair not in {None, "explain"}:
        raise UsageError(f"repair must be None or 'explain', got {repair!r}", field="repair")


def checked_parts(**parts: object) -> None:
    """Refuse a part that cannot do its work; `None` is no part.

    Raises:
        UsageError: Names the first bad one.
    """
    for field, part in parts.items():
        abilities, wanted = _PARTS[field]
        if part is not None and not all(hasattr(part, ability) for ability in abilities):
            raise UsageError(f"{field} must be {wanted}, or None; got {type(part).__name__}", field=field)
