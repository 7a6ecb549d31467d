"""`spindle demo`: run six hostile calls among good ones in one batch and print a table of the outcomes.

`--all` adds further malformed calls to the batch. `python -m spindle.cli.commands.demo` does the same.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, cast

import anyio
from cyclopts import Parameter

from spindle.artifacts.forge import forge_all
from spindle.calls import Call, CallOutcome, Ok
from spindle.cli.demo_calls import DemoCall, every_call, shop, six_calls
from spindle.cli.demo_cases import LOG_FAULT, Note, impostor_tool
from spindle.cli.main import OK
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json
from spindle.cli.output import Output
from spindle.errors import ToolAlreadyRegisteredError
from spindle.events import Events, ToolExecutionStart
from spindle.execution.executor import Executor
from spindle.extras import needs_extra
from spindle.tools.context import ToolContext
from spindle.tools.declaration import tool
from spindle.tools.registry import ToolRegistry


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoAnswer:
    """One call and its outcome."""

    asked: DemoCall
    ran: bool
    """Whether the tool was started, according to the events."""
    outcome: CallOutcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Demonstration:
    """The results of the demo."""

    answers: Sequence[DemoAnswer]
    clash: ToolAlreadyRegisteredError | None
    read_back: Sequence[DemoAnswer]
    """Calls of forged reader tools that read the truncated result."""
    entered: Sequence[str]
    """The calls that tools recorded themselves, with their arguments."""


async def demonstrate(asked: Sequence[DemoCall]) -> Demonstration:
    """Run all calls in one batch of one executor, then read the truncated result with forged tools."""
    entered: list[str] = []
    registry = shop(entered.append)
    registry.to_definitions()  # as a real turn does before the model sends calls
    answers = await run_calls(registry, asked)
    return Demonstration(
        answers=answers,
        clash=register_clash(registry, entered.append),
        read_back=await read_back([answer.outcome for answer in answers]),
        entered=tuple(entered),
    )


async def run_calls(registry: ToolRegistry, asked: Sequence[DemoCall]) -> list[DemoAnswer]:
    """Run the calls in parallel and return one answer for each, in order."""
    started: set[str | None] = set()

    def start(event: ToolExecutionStart) -> None:
        started.add(event.tool_call_id)

    events = Events()
    events.on("tool_execution_start", start)
    context = ToolContext(session_id="demo", turn_id="t1", events=events)
    outcomes = await Executor(registry).execute_parallel([each.call for each in asked], context)
    return [
        DemoAnswer(asked=each, ran=each.call.tool_call_id in started, outcome=outcome)
        for each, outcome in zip(asked, outcomes, strict=True)
    ]


def register_clash(registry: ToolRegistry, note: Note) -> ToolAlreadyRegisteredError | None:
    """Try to register a second tool with a taken name; return the error."""
    try:
        registry.register(tool(impostor_tool(note)), plugin_id="cheap-refunds")
    except ToolAlreadyRegisteredError as refused:
        return refused
    return None


@dataclass(frozen=True, slots=True)
class _CallRecord:
    """A call record with an artifact, as `forge_all` expects it."""

    id: str
    results: object
    from_artifact_tool: bool = False


@dataclass(frozen=True, slots=True)
class _Turn:
    """A context with the calls for which reader tools are forged."""

    tool_calls: Sequence[_CallRecord]


async def read_back(outcomes: Sequence[CallOutcome]) -> list[DemoAnswer]:
    """Read truncated results with forged reader tools."""
    kept = [
        _CallRecord(outcome.tool_call_id, outcome.result.artifact)
        for outcome in outcomes
        if isinstance(outcome.result, Ok) and outcome.result.artifact is not None
    ]
    if not kept:
        return []
    readers, address = forge_all(_Turn(kept)), kept[0].id
    readers.to_definitions()
    found = await run_calls(
        readers, [_build_read_call("line_count", address), _build_read_call("grep", address, pattern="ERROR")]
    )
    line = _parse_line_number(found[-1].outcome)
    return [*found, *await run_calls(readers, [_build_read_call("cat", address, start=line - 1, end=line + 2)])]


def _build_read_call(what: str, address: str, **args: str | int) -> DemoCall:
    name = f"artifact_{what}"
    return DemoCall(title=name, call=Call(f"call_{what}", name, {"call_id": address, **args}))


def _parse_line_number(outcome: CallOutcome) -> int:
    """Parse the line number from the output of `artifact_grep`, as a model would."""
    found = outcome.result.value if isinstance(outcome.result, Ok) else ""
    return next((int(line.split(":")[0]) for line in found.splitlines() if LOG_FAULT in line), 1)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the batch and print the table.

    Raises:
        MissingExtraError: rich is not installed.
    """
    parser = ArgumentParser(
        prog="python -m spindle.cli.commands.demo",
        description="Run hostile calls among good ones and print the outcomes.",
    )
    parser.add_argument("--all", action="store_true", help="run malformed calls of every kind, not only the six cases")
    options = parser.parse_args(argv)
    with needs_extra("cli", purpose="the demonstration"):
        from spindle.cli.demo_table import show  # noqa: PLC0415 - rich is an extra
    if hasattr(sys.stdout, "reconfigure"):
        cast("Any", sys.stdout).reconfigure(errors="replace")  # so that the table prints on an ASCII terminal
    show(anyio.run(partial(demonstrate, every_call() if options.all else six_calls())))


if __name__ == "__main__":
    main()


def demo_to_json(demo: Demonstration) -> dict[str, Any]:
    """Return the results as JSON data: for each call, whether it ran and what the model saw."""
    return {
        "calls": [_answer(answer) for answer in demo.answers],
        "name_clash": None if demo.clash is None else str(demo.clash),
        "read_back": [_answer(answer) for answer in demo.read_back],
        "entered": list(demo.entered),
    }


def _answer(answer: DemoAnswer) -> dict[str, Any]:
    call, result = answer.asked.call, answer.outcome.result
    return {
        "title": answer.asked.title,
        "tool_call_id": call.tool_call_id,
        "tool": call.name,
        "args": call.args.decode(errors="replace") if isinstance(call.args, bytes) else call.args,
        "ran": answer.ran,
        "ok": answer.outcome.ok,
        "code": None if isinstance(result, Ok) else result.code,
        "shown": result.value if isinstance(result, Ok) else result.error,
        "duration_ms": round(answer.outcome.duration_ms, 3),
    }


def demo(
    *,
    all: Annotated[
        bool, Parameter(name="--all", negative="", help="Run malformed calls of every kind, not only the six cases.")
    ] = False,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,  # noqa: ARG001 - every command accepts these options
) -> int:
    """Run hostile calls among good ones in one batch, and print the outcome of each."""
    if json:
        Output().json(demo_to_json(anyio.run(partial(demonstrate, every_call() if all else six_calls()))))
    else:
        main(["--all"] if all else [])
    return OK
