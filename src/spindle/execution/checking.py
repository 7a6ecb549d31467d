"""Whether an executor's settings are what they should be."""

import math
from typing import Any

from spindle.errors import UsageError
from spindle.tools.registry import ToolRegistry


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
