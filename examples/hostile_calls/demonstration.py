"""The tools of a small shop, a model's reply with hostile calls among good ones, and the run of both in one batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from examples.hostile_calls.cases import (
    CASES,
    DEADLINE_SECONDS,
    LOG_FAULT,
    Note,
    RawCall,
    hostile_tools,
    impostor_tool,
)
from spindle import Call, CallOutcome, Events, Executor, Ok, ToolContext, ToolRegistry, tool
from spindle.artifacts import forge_all
from spindle.calls import RawArgs
from spindle.errors import ToolAlreadyRegisteredError
from spindle.events import ToolExecutionStart

SIBLING = "a good sibling"


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoCall:
    """One call of the batch and its title."""

    title: str
    call: Call


@tool(toolset="shop", read_only=True)
async def search_orders(
    customer: str, limit: Annotated[int, Field(ge=1, le=100)] = 10, *, ctx: ToolContext
) -> list[str]:
    """Find a customer's orders.

    Args:
        customer: The customer's number, like C-17.
        limit: The maximum number of orders.
    """
    ctx.progress(f"looking for {limit} orders")
    return [f"{customer}/{number}" for number in range(1, limit + 1)]


def shop(note: Note) -> ToolRegistry:
    """Build the registry of the demo; its tools report their arguments to `note`."""
    hostile = [
        tool(timeout_seconds=DEADLINE_SECONDS)(function) if function.__name__ == "print_label" else tool(function)
        for function in hostile_tools(note)
    ]
    return ToolRegistry([search_orders, *hostile])


def six_calls() -> list[DemoCall]:
    """Return the hostile calls and their good siblings, as one reply of the model."""
    asked: list[DemoCall] = []
    for case in CASES:
        asked += [_sent(case.title if sent is case.hostile else SIBLING, sent) for sent in case.calls]
    return asked


def every_call() -> list[DemoCall]:
    """Return the hostile calls and further malformed calls a model may send."""
    refund = '{"order": "A-7", "cents": '
    return [
        _asked("plain", "search_orders", {"customer": "C-17", "limit": 2}),
        _asked("a number sent as text", "search_orders", '{"customer": "C-17", "limit": "3"}'),
        _asked("arguments as bytes", "count_words", '{"text": "größer als gedacht"}'.encode()),
        _asked("changes something", "refund", f"{refund}250}}"),
        *six_calls(),
        _asked("out of range", "search_orders", '{"customer": "C-17", "limit": 5000}'),
        _asked("unknown argument", "refund", f'{refund}1, "centz": 9}}'),
        _asked("an argument missing", "refund", '{"cents": 250}'),
        _asked("not a number", "refund", f"{refund}NaN}}"),
        _asked("one key twice", "refund", f'{refund}1, "cents": 900}}'),
        _asked("chatter after the JSON", "refund", f"{refund}1}} Done!"),
        _asked("not an object", "refund", '["A-7", 250]'),
        _asked("absurdly deep", "count_words", '{"text": ' + "[" * 5_000),
        _asked("claims our context", "search_orders", '{"customer": "C-17", "ctx": {}}'),
        _asked("unknown tool", "refnud", f"{refund}250}}"),
    ]


def _sent(title: str, sent: RawCall) -> DemoCall:
    return DemoCall(title=title, call=Call(sent.id, sent.name, sent.args))


def _asked(title: str, name: str, args: RawArgs) -> DemoCall:
    return DemoCall(title=title, call=Call(f"call_{title.replace(' ', '_')}", name, args))


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
