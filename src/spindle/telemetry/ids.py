"""The ids of the current span, for lines of a log; none where there is no OpenTelemetry."""

from collections.abc import Callable
from functools import cache
from typing import Any


def trace_ids() -> dict[str, str]:
    """Give `trace_id` and `span_id` of the current span as they are written everywhere; empty without one."""
    find = _finder()
    context: Any = None if find is None else find().get_span_context()
    if context is None or not context.is_valid:
        return {}
    return {"trace_id": format(context.trace_id, "032x"), "span_id": format(context.span_id, "016x")}


@cache
def _finder() -> Callable[[], Any] | None:
    try:
        from opentelemetry.trace import get_current_span  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    return get_current_span
