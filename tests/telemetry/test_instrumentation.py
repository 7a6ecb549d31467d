"""One call sets it up; without an SDK nothing happens; contents are recorded only on request, and secrets never."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import NoOpTracerProvider

from spindle import Artifact, Backends, Capabilities, Err, Executor, Tool, ToolContext, ToolRegistry
from spindle.errors import MissingExtraError, UsageError
from spindle.telemetry.instrumentation import telemetry
from tests.execution.calling import call, execute, giving, make, ok
from tests.telemetry.collecting import Collected, attributes

pytestmark = pytest.mark.anyio

ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"


async def test_without_an_sdk_nothing_is_watched() -> None:
    observer = telemetry()

    assert observer.watch(ToolContext()) is None
    (outcome,) = await execute([giving("fine")], [call("give")], interceptors=[observer])
    assert ok(outcome).value == "fine"


async def test_telemetry_starts_by_itself_once_an_sdk_is_set_up(
    sdk: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: sdk.tracers)

    await execute([giving("")], [call("give"), call("nobody")])

    assert [span.name for span in sdk.spans] == ["execute_tool give", "execute_tool"]
    assert ARGUMENTS not in attributes(sdk.spans[0])


async def test_own_telemetry_replaces_the_automatic_one(sdk: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: sdk.tracers)

    await execute([giving("")], [call("give")], interceptors=[telemetry(contents=True)])

    assert RESULT in attributes(sdk.span)


async def test_spans_without_metrics_and_metrics_without_spans(sdk: Collected) -> None:
    await execute([giving("")], [call("give")], interceptors=[telemetry(tracer_provider=sdk.tracers)])
    assert len(sdk.spans) == 1
    assert not sdk.points("gen_ai.execute_tool.duration")

    await execute([giving("")], [call("give")], interceptors=[telemetry(meter_provider=sdk.meters)])
    assert len(sdk.spans) == 1
    assert len(sdk.points("gen_ai.execute_tool.duration")) == 1


async def test_a_provider_that_does_nothing_turns_its_half_off(sdk: Collected) -> None:
    observer = telemetry(tracer_provider=NoOpTracerProvider(), meter_provider=sdk.meters)

    await execute([giving("")], [call("give")], interceptors=[observer])

    assert len(sdk.points("gen_ai.execute_tool.duration")) == 1
    assert telemetry(tracer_provider=NoOpTracerProvider()).watch(ToolContext()) is None


def test_an_sdk_that_is_set_up_later_is_found() -> None:
    # In a program of its own, for there is one global SDK in each.
    done = subprocess.run([sys.executable, "-c", SET_UP_LATER], capture_output=True, text=True, timeout=50, check=False)

    assert (done.stdout.split(), done.stderr) == (["0", "1", "1"], "")


SET_UP_LATER = """
import anyio
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from spindle import Call, Executor, ToolContext, ToolRegistry
from spindle.telemetry import instruments
from spindle.telemetry.instrumentation import telemetry

async def main():
    instruments.LOOKUP_INTERVAL_SECONDS = 0  # rather than wait
    executor = Executor(ToolRegistry(), interceptors=[telemetry()])
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    await executor.execute_parallel([Call("c1", "x")], ToolContext())
    print(len(exporter.get_finished_spans()))
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader]))
    await executor.execute_parallel([Call("c1", "x")], ToolContext())
    found = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    print(len(exporter.get_finished_spans()), sum(each.name == "gen_ai.execute_tool.duration" for each in found))

anyio.run(main)
"""


def test_without_opentelemetry_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("opentelemetry", "spindle.telemetry."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    with pytest.raises(MissingExtraError) as caught:
        telemetry()

    assert ".[telemetry]" in str(caught.value)


def test_contents_of_no_length_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        telemetry(contents=True, max_content_chars=0)

    assert caught.value.field == "max_content_chars"


async def test_contents_are_off_unless_asked_for(sdk: Collected) -> None:
    private = giving("a private result", name="private")
    calls = [call("private", {"word": "a private word"}), call("private", '{"word": "a private', "broken")]

    await execute([private], calls, interceptors=[sdk.telemetry()])

    assert "private word" not in "".join(span.to_json() for span in sdk.spans)
    assert not [span for span in sdk.spans if {ARGUMENTS, RESULT} & attributes(span).keys()]


async def test_contents_are_recorded_on_request(sdk: Collected) -> None:
    await execute([giving("done")], [call("give", '{"to": "Zo\u00eb"}')], interceptors=[sdk.telemetry(contents=True)])

    assert attributes(sdk.span)[ARGUMENTS] == '{"to":"Zo\u00eb"}'
    assert attributes(sdk.span)[RESULT] == "done"


@pytest.mark.parametrize("keeps_them", [True, False], ids=["kept", "taken out"])
async def test_secret_fields_are_masked_also_where_a_tool_repeats_them(sdk: Collected, keeps_them: bool) -> None:
    async def repeat(args: Any, _ctx: Any, _meta: Any) -> str:
        return f"logged in with {args['password'] if keeps_them else args.pop('password')}"

    tool = make("repeat", repeat, secret_fields=["password"])
    args = '{"user": "zoe", "password": "open sesame"}'
    await execute([tool], [call("repeat", args)], interceptors=[sdk.telemetry(contents=True)])

    assert attributes(sdk.span)[ARGUMENTS] == '{"user":"zoe","password":"***"}'
    assert attributes(sdk.span)[RESULT] == "logged in with ***"


async def test_a_secret_handed_to_a_tool_is_masked_in_what_a_later_call_is_given(
    sdk: Collected, tmp_path: Path
) -> None:
    async def show(_args: Any, ctx: Any, _meta: Any) -> str:
        return (await ctx.secrets.get("KEY")).reveal()

    tool = make("show", show, capabilities=Capabilities(secrets=["KEY"]))
    backends = Backends.local(tmp_path, secrets={"KEY": "open sesame"})
    executor = Executor(ToolRegistry([tool]), backends=backends, interceptors=[sdk.telemetry(contents=True)])

    for given in ("nothing", "open sesame"):
        await executor.execute_parallel([call("show", {"word": given})], ToolContext())

    first, second = map(attributes, sdk.spans)
    assert first[RESULT] == second[RESULT] == "***"
    assert second[ARGUMENTS] == '{"word":"***"}'


async def test_the_arguments_of_a_refused_call_are_never_recorded(sdk: Collected) -> None:
    schema = {"type": "object", "properties": {"password": {"type": "string"}}, "additionalProperties": False}
    tool = giving("", input_schema=schema, secret_fields=["password"])
    given = ['{"pasword": "open sesame"}', '{"password": "open sesame"', {"password": ["open sesame"]}]

    await execute([tool], [call("give", args) for args in given], interceptors=[sdk.telemetry(contents=True)])

    assert len(sdk.spans) == 3
    assert "sesame" not in "".join(span.to_json() for span in sdk.spans)


async def test_contents_are_bounded_and_can_always_be_written(sdk: Collected) -> None:
    args = {"word": "\U0001f9f5" * 1_000}
    tool = giving(Err("execution_failed", "lone \ud800 half " * 100))

    await execute([tool], [call("give", args)], interceptors=[sdk.telemetry(contents=True, max_content_chars=50)])

    facts = attributes(sdk.span)
    assert len(facts[ARGUMENTS]) == len(facts[RESULT]) == 50
    assert sdk.span.to_json().encode()


async def test_a_tools_description_is_bounded(sdk: Collected) -> None:
    await execute([giving("", description="long " * 5_000)], [call("give")], interceptors=[sdk.telemetry()])

    assert len(attributes(sdk.span)["gen_ai.tool.description"]) < 1_100


@pytest.mark.parametrize(
    ("value", "size"), [(b"\xff\x00\x01", 3), ("", 0), (None, 0), ({"a": 1}, 7)], ids=["bytes", "empty", "none", "json"]
)
async def test_the_size_is_that_of_the_whole_result(sdk: Collected, value: Any, size: int) -> None:
    await execute([giving(value)], [call("give")], interceptors=[sdk.telemetry()])

    assert attributes(sdk.span)["spindle.result.size"] == size


async def test_the_size_of_an_artifact_is_not_read_for_the_span(sdk: Collected) -> None:
    await execute([giving(Artifact.from_text("much"))], [call("give")], interceptors=[sdk.telemetry()])

    facts = attributes(sdk.span)
    assert "spindle.result.size" not in facts
    assert facts["spindle.result.artifact"] is True


@pytest.mark.parametrize(
    ("args", "size"), [(b'{"a":1}', 7), ({"a": 1}, 7), (None, 0), ("{", 1)], ids=["bytes", "mapping", "none", "broken"]
)
async def test_the_size_of_arguments_in_every_form(sdk: Collected, args: Any, size: int) -> None:
    tool: Tool = giving("")
    await Executor(ToolRegistry([tool]), interceptors=[sdk.telemetry()]).execute_parallel(
        [type(call("give"))("c1", "give", args)], ToolContext()
    )

    assert attributes(sdk.span)["spindle.arguments.size"] == size


async def test_arguments_without_end_cost_no_outcome(sdk: Collected) -> None:
    endless: dict[str, Any] = {}
    endless["self"] = endless

    (outcome,) = await execute([giving("")], [call("give", endless)], interceptors=[sdk.telemetry(contents=True)])

    assert not outcome.ok
    assert attributes(sdk.span)["error.type"] == "input_invalid"
