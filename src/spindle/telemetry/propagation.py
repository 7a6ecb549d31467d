"""Trace context in the `_meta` of MCP requests: a tool's span on the server is a child of the client's.

Without OpenTelemetry these do nothing, so that the MCP client and server may always call them.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeGuard

from spindle.telemetry import names

if TYPE_CHECKING:
    from opentelemetry.propagators.textmap import TextMapPropagator

_MAX_CHARS = {"traceparent": 256, "tracestate": 1_024, "baggage": 8_192}
"""Longer ones are not read: they come from whoever calls."""


def inject(meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Give a request's `_meta` with the current trace context in it; the one given stays as it is.

    Baggage goes along: put nothing there that the servers you call may not see.
    """
    sent = dict(meta or {})
    propagator = _propagator()
    if propagator is not None:
        carrier: Any = {}
        propagator.inject(carrier)
        sent.update(carrier)
    return sent


@contextmanager
def extracted(meta: Mapping[str, Any] | None) -> Generator[None]:
    """Be in the trace of a request while serving it; what is missing or malformed there is as if it were not."""
    propagator = _propagator()
    carrier = _readable(meta)
    if propagator is None or not carrier:
        yield
        return
    from opentelemetry.context import attach, detach, get_current  # noqa: PLC0415

    token = attach(propagator.extract(carrier, get_current()))
    try:
        yield
    finally:
        detach(token)


def mark_mcp(
    *,
    method: str,
    session_id: str | None = None,
    protocol_version: str | None = None,
    request_id: str | int | None = None,
) -> None:
    """Say on the current span which MCP request it stands for, as the conventions want where a tool has a span."""
    if _propagator() is None:
        return
    from opentelemetry.trace import get_current_span  # noqa: PLC0415

    facts = {
        names.MCP_METHOD: method,
        names.MCP_SESSION_ID: session_id,
        names.MCP_PROTOCOL_VERSION: protocol_version,
        names.JSONRPC_REQUEST_ID: None if request_id is None else str(request_id),
    }
    get_current_span().set_attributes({name: value for name, value in facts.items() if value is not None})


def _readable(meta: Mapping[str, Any] | None) -> dict[str, str]:
    found = {name: (meta or {}).get(name) for name in names.TRACE_KEYS}
    return {name: value for name, value in found.items() if _is_fine(value, _MAX_CHARS[name])}


def _is_fine(value: object, max_chars: int) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= max_chars and value.isascii()


@cache
def _propagator() -> "TextMapPropagator | None":
    """Give the propagator of the W3C's formats, which are those of MCP whatever the program uses elsewhere."""
    try:
        from opentelemetry.baggage.propagation import W3CBaggagePropagator  # noqa: PLC0415
        from opentelemetry.propagators.composite import CompositePropagator  # noqa: PLC0415
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    return CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
