"""One JSON object a line: what happened to which call, and never what was in it."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from spindle import Call, Events, Executor, ToolContext, ToolRegistry
from spindle.telemetry.logs import JsonFormatter, json_logs, log_calls, log_events
from tests.execution.calling import call, execute, giving, make, raising
from tests.telemetry.collecting import Collected, span_id

pytestmark = pytest.mark.anyio


class Lines:
    """What was written."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def one(self) -> dict[str, Any]:
        (line,) = self.all
        return line


@pytest.fixture
def lines() -> Iterator[Lines]:
    written = Lines()
    stop = json_logs(written.stream, level=logging.DEBUG)
    yield written
    stop()


async def test_each_call_is_a_line(lines: Lines) -> None:
    await execute([giving("fine")], [call("give", call_id="a")], interceptors=[log_calls()])

    line = lines.one
    assert line.pop("time").endswith("+00:00")
    assert line.pop("duration_ms") >= 0
    assert line == {
        "level": "info",
        "logger": "spindle.calls",
        "event": "tool_call",
        "tool": "give",
        "tool_call_id": "a",
        "session_id": "s1",
        "code": "ok",
        "attempts": 1,
    }


async def test_refused_and_failed_calls_have_lines_too(lines: Lines) -> None:
    calls = [call("fail", call_id="a"), call("nobody", call_id="b"), Call("c", "fail", "{")]

    await execute([raising(ValueError("a private word"))], calls, interceptors=[log_calls()])

    reported = [(line["tool_call_id"], line["code"], line["level"]) for line in lines.all]
    assert reported == [
        ("a", "execution_failed", "warning"),
        ("b", "not_available", "warning"),
        ("c", "input_invalid", "info"),
    ]
    assert "private" not in lines.text


async def test_a_line_carries_the_ids_of_its_calls_span(lines: Lines, sdk: Collected) -> None:
    with sdk.tracers.get_tracer("test").start_as_current_span("caller"):
        calls = [call("give", call_id="a"), call("nobody", call_id="b")]
        await execute([giving("")], calls, interceptors=[sdk.telemetry(), log_calls()])

    ran, refused = lines.all
    caller = sdk.named("caller")
    assert caller.context is not None
    assert ran["trace_id"] == refused["trace_id"] == format(caller.context.trace_id, "032x")
    assert ran["span_id"] == format(span_id(sdk.of_call("a")), "016x")
    assert refused["span_id"] == format(span_id(caller), "016x")


async def test_names_and_ids_from_outside_cannot_make_a_line_of_their_own(lines: Lines) -> None:
    await execute([], [Call("x\n{}\u2028", "y\r\n" * 5_000, {})], interceptors=[log_calls()])

    assert lines.one["code"] == "not_available"
    assert len(lines.text) < 2_000


async def test_events_are_lines_without_what_was_in_them(lines: Lines) -> None:
    async def work(_args: Any, ctx: Any, _meta: Any) -> str:
        ctx.progress("private progress", float("nan"))
        return "private result"

    events = Events()
    log_events(events)
    executor = Executor(ToolRegistry([make("work", work)]))
    await executor.execute_parallel([call("work", {"word": "private word"})], ToolContext(events=events, turn_id="t1"))

    assert [line["event"] for line in lines.all] == ["tool_execution_start", "tool_progress", "tool_execution_end"]
    assert {(line["tool"], line["tool_call_id"], line["turn_id"]) for line in lines.all} == {("work", "c1", "t1")}
    assert lines.all[2]["is_error"] is False
    assert lines.all[2]["duration_ms"] >= 0
    assert "private" not in lines.text


async def test_a_warning_says_what_it_is_about_and_names_its_error_by_class(lines: Lines) -> None:
    events = Events()
    log_events(events)
    events.warn("the upstream said Bearer abcdefgh1234", source="guard", error=ValueError("a private word"))

    line = lines.one
    assert (line["level"], line["event"], line["source"], line["error"]) == (
        "warning",
        "warning",
        "guard",
        "ValueError",
    )
    assert line["message"] == "the upstream said Bearer ***"
    assert "private" not in lines.text


class Talkative(Exception):
    def __repr__(self) -> str:
        return "my private word is (42)"


async def test_an_exception_that_describes_itself_strangely_is_not_quoted(lines: Lines) -> None:
    events = Events()
    log_events(events)
    events.warn("odd", source="guard", error=Talkative())

    assert lines.one["error"] == "Exception"


async def test_any_other_record_is_a_line_with_its_message_masked(lines: Lines) -> None:
    logging.getLogger("spindle.server").info("client %s sent %s", 7, "Authorization: Bearer abcdefgh1234")

    line = lines.one
    assert (line["event"], line["message"]) == ("log", "client 7 sent Authorization: ***")


async def test_an_exception_is_recorded_by_class_and_location_without_its_message(lines: Lines) -> None:
    try:
        raise ValueError("a private word")
    except ValueError:
        logging.getLogger("spindle").exception("it failed")

    reported = lines.one["exception"]
    assert reported["type"] == "ValueError"
    assert "test_logs.py" in reported["at"][-1]
    assert "private" not in lines.text


async def test_a_record_that_does_not_fit_its_arguments_is_still_a_line() -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "%d %d", ("one",), None)

    assert json.loads(JsonFormatter().format(record))["message"] == "%d %d"


async def test_lines_without_a_reader_are_not_built(lines: Lines) -> None:
    logger = logging.getLogger("spindle.quiet")
    logger.setLevel(logging.ERROR)
    assert log_calls(logger).watch(ToolContext()) is None

    logger.setLevel(logging.WARNING)
    calls = [call("give", call_id="a"), call("fail", call_id="b")]
    await execute([giving(""), raising(ValueError())], calls, interceptors=[log_calls(logger)])
    assert lines.one["tool_call_id"] == "b"


async def test_the_stop_puts_everything_back() -> None:
    log = logging.getLogger("spindle")
    before = (log.level, list(log.handlers))
    stop = json_logs(io.StringIO())
    assert (log.level, list(log.handlers)) != before

    stop()

    assert (log.level, list(log.handlers)) == before


async def test_calls_whose_caller_left_are_written(lines: Lines) -> None:
    async def leave(_args: Any, _ctx: Any, _meta: Any) -> None:
        scope.cancel()
        await anyio.sleep_forever()

    with anyio.fail_after(30), anyio.CancelScope() as scope:
        await execute([make("leave", leave)], [call("leave")], interceptors=[log_calls()])

    assert lines.one["code"] == "cancelled"
