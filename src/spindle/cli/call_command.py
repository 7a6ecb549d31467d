"""`spindle call NAME key=value …`: one call, and what became of it."""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal

import anyio
from cyclopts import Parameter

from spindle.calls import Call, CallOutcome
from spindle.cli.asking import approver, gate_opener
from spindle.cli.call_arguments import arguments_of
from spindle.cli.call_output import print_json, print_raw, print_text
from spindle.cli.completing import profile_names, tool_names
from spindle.cli.config import Config
from spindle.cli.exits import REFUSED, exit_code_of
from spindle.cli.house import House, open_house
from spindle.cli.lookup import NAMES_THEM, only_servers_of, unknown
from spindle.cli.options import NOWHERE, Where
from spindle.cli.output import Output, Progress, warnings_to, working
from spindle.errors import UsageError
from spindle.events import Events, ToolProgress
from spindle.tools.context import ToolContext
from spindle.tools.filters import refusal

Shape = Literal["text", "json", "raw"]
SESSION = "cli"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Request:
    name: str
    pairs: tuple[str, ...]
    given: str | None
    shape: Shape
    yes: bool
    dry_run: bool
    timeout_seconds: float | None
    profile: str | None


def call_tool(
    name: Annotated[str, Parameter(help="The tool's name.", completer=tool_names)],
    /,
    *arguments: Annotated[
        str, Parameter(help="key=value, key:=JSON or key=@file; the tool's schema says what a value becomes.")
    ],
    json: Annotated[
        str | None,
        Parameter(
            name="--json",
            allow_leading_hyphen=True,
            help="The arguments as a JSON object, - for stdin; without one, the answer as JSON.",
        ),
    ] = None,
    output: Annotated[
        Shape, Parameter(name=("--output", "-o"), help="text unless said; raw is the whole result alone.")
    ] = "text",
    yes: Annotated[bool, Parameter(name=("--yes", "-y"), negative="", help="Approve what asks first.")] = False,
    dry_run: Annotated[bool, Parameter(negative="", help="Say what would be done, and do nothing.")] = False,
    timeout: Annotated[float | None, Parameter(help="Stop after so many seconds.")] = None,
    profile: Annotated[
        str | None, Parameter(help="Be this profile of the configuration.", completer=profile_names)
    ] = None,
    where: Where = NOWHERE,
) -> int:
    """Call a tool; shows what became of the call, what a model would see, and where a large result is kept."""
    if timeout is not None and not 0 < timeout < 1e9:
        raise UsageError(f"--timeout takes a number of seconds above 0, not {timeout:g}", field="timeout")
    request = _Request(
        name=name,
        pairs=arguments,
        given=json,
        shape=output,
        yes=yes,
        dry_run=dry_run,
        timeout_seconds=timeout,
        profile=profile,
    )
    return anyio.run(_call, only_servers_of(where.load_for_tools(), name), request)


async def _call(config: Config, request: _Request) -> int:
    with working(f"{request.name} …") as progress:
        approve, events = approver(yes=request.yes, before=progress.clear), warnings_to(progress)
        async with open_house(
            config, approve=approve, events=events, batch_timeout_seconds=request.timeout_seconds
        ) as house:
            entry = house.registry.entry(request.name)
            if entry is None:
                raise unknown("tool", request.name, [tool.name for tool in house.registry], NAMES_THEM)
            allowed = house.filter_of(request.profile)
            args = arguments_of(request.pairs, request.given, entry.tool.describe()["input_schema"])
            call = Call(f"{request.name}-{secrets.token_hex(3)}", request.name, args)
            context = _context(request, progress, events)
            [outcome] = await house.executor.execute_parallel([call], context, allowed)
            progress.clear()
            await _show(request.shape, outcome, house, f"{SESSION}/{context.turn_id}/{call.tool_call_id}")
            return REFUSED if refusal(entry, allowed) is not None else exit_code_of(outcome)


def _context(request: _Request, progress: Progress, events: Events) -> ToolContext:
    def say(event: ToolProgress) -> None:
        percent = "" if event.percent is None else f" {event.percent:.0f} %"
        progress.say(f"{request.name}{percent} · {event.message}")

    events.on("tool_progress", say)
    return ToolContext(
        session_id=SESSION,
        turn_id=datetime.now(UTC).date().isoformat(),
        events=events,
        dry_run=request.dry_run,
        open_gate=gate_opener(progress.clear),
    )


async def _show(shape: Shape, outcome: CallOutcome, house: House, place: str) -> None:
    is_kept = await house.spool.read(place) is not None
    artifact_id = place if is_kept else None
    match shape:
        case "json":
            await print_json(Output(), outcome, artifact_id)
        case "raw":
            await print_raw(Output(), outcome)
        case "text":
            await print_text(Output(), outcome, artifact_id)
