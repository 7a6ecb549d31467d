"""The trace goes along with an MCP request, and nothing a caller writes there does harm."""

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach, get_current

from spindle.telemetry import propagation
from spindle.telemetry.propagation import extracted, inject, mark_mcp
from tests.execution.calling import call, execute, giving
from tests.telemetry.collecting import Collected, attributes, parent_id, span_id

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE_ID, SPAN_ID = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331


def current() -> tuple[int, int]:
    context = trace.get_current_span().get_span_context()
    return context.trace_id, context.span_id


def test_what_is_injected_in_one_program_is_extracted_in_another(sdk: Collected) -> None:
    token = attach(baggage.set_baggage("tenant", "blue & green"))
    with sdk.tracers.get_tracer("test").start_as_current_span("client"):
        here = current()
        sent = inject({"progressToken": 7})
    detach(token)

    assert sent.keys() == {"progressToken", "traceparent", "baggage"}
    with extracted(sent):
        assert current() == here
        assert baggage.get_baggage("tenant") == "blue & green"
    assert current() == (0, 0)
    assert baggage.get_baggage("tenant") is None


def test_the_state_of_other_vendors_is_passed_on() -> None:
    with extracted({"traceparent": PARENT, "tracestate": "vendor=7"}):
        assert inject() == {"traceparent": PARENT, "tracestate": "vendor=7"}


def test_the_given_meta_is_not_changed(sdk: Collected) -> None:
    given: dict[str, Any] = {}
    with sdk.tracers.get_tracer("test").start_as_current_span("client"):
        assert inject(given) is not given
    assert given == {}


def test_without_a_current_span_nothing_is_added() -> None:
    assert inject({"a": 1}) == {"a": 1}
    assert inject() == {}


@pytest.mark.anyio
async def test_a_call_served_for_a_request_is_in_its_trace(sdk: Collected) -> None:
    with extracted({"traceparent": PARENT}):
        await execute([giving("")], [call("give")], interceptors=[sdk.telemetry()])

    assert parent_id(sdk.span) == SPAN_ID
    assert sdk.span.context is not None
    assert sdk.span.context.trace_id == TRACE_ID


@pytest.mark.parametrize(
    "meta",
    [
        None,
        {},
        {"traceparent": 7},
        {"traceparent": "00-zz-zz-01"},
        {"traceparent": PARENT + "x" * 10_000},
        {"traceparent": PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32)},
        {"traceparent": [PARENT]},
        {"tracestate": "a=1"},
        {"baggage": "\ud800=1"},
        {"baggage": "x" * 100_000},
    ],
    ids=lambda meta: "none" if meta is None else "-".join(f"{key}_{str(meta[key])[:12]!a}" for key in meta) or "empty",
)
def test_what_is_missing_or_malformed_is_as_if_it_were_not(sdk: Collected, meta: Any) -> None:
    with sdk.tracers.get_tracer("test").start_as_current_span("ours"):
        here, before = current(), get_current()
        with extracted(meta):
            assert current() == here
            assert get_current() == before


@given(
    st.dictionaries(st.sampled_from(["traceparent", "tracestate", "baggage"]), st.text() | st.none() | st.integers())
)
def test_no_meta_raises(meta: dict[str, Any]) -> None:
    with extracted(meta):
        inject(meta)
    assert current() == (0, 0)


def test_the_context_ends_when_serving_fails() -> None:
    with pytest.raises(ValueError, match="failed"), extracted({"traceparent": PARENT}):
        raise ValueError("failed")
    assert current() == (0, 0)


def test_a_span_says_which_mcp_request_it_stands_for(sdk: Collected) -> None:
    with sdk.tracers.get_tracer("test").start_as_current_span("tools/call add"):
        mark_mcp(method="tools/call", session_id="s9", protocol_version="2026-07-28", request_id=7)

    assert attributes(sdk.span) == {
        "mcp.method.name": "tools/call",
        "mcp.session.id": "s9",
        "mcp.protocol.version": "2026-07-28",
        "jsonrpc.request.id": "7",
    }
    assert span_id(sdk.span)


def test_what_is_not_known_of_a_request_is_left_out(sdk: Collected) -> None:
    with sdk.tracers.get_tracer("test").start_as_current_span("ping"):
        mark_mcp(method="ping")

    assert attributes(sdk.span) == {"mcp.method.name": "ping"}


def test_without_opentelemetry_they_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(propagation, "_propagator", propagation._propagator.__wrapped__)  # pyright: ignore[reportPrivateUsage]  so that it looks again

    with extracted({"traceparent": PARENT}):
        assert inject({"a": 1}) == {"a": 1}
        mark_mcp(method="ping")
