"""`spindle call NAME key=value …`: make one call and print its outcome."""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal

import anyio
from cyclopts import Parameter

from spindle import cli
from spindle.artifacts.artifact import Artifact
from spindle.calls import Call, CallOutcome, Err, Ok
from spindle.cli.arguments import parse_arguments
from spindle.cli.completers import profile_names, tool_names
from spindle.cli.config.loader import Config
from spindle.cli.main import REFUSED, to_exit_code
from spindle.cli.options import (
    DEFAULT_CONFIG_OPTIONS,
    ConfigOptions,
    build_unknown_tool_error,
    restrict_servers,
)
from spindle.cli.output import Output, Progress, build_warning_events, format_duration, print_message, show_progress
from spindle.cli.prompts import build_approver, build_gate_handler, get_user
from spindle.cli.runtime import Runtime, open_runtime
from spindle.errors import SpoolError, UsageError
from spindle.events import Events, ToolProgress, Warned
from spindle.execution.approval import name_answers
from spindle.execution.outcome_report import report_outcome
from spindle.json_types import JsonObject
from spindle.tools.context import ToolContext
from spindle.tools.filters import find_refusal


async def print_text(out: Output, outcome: CallOutcome, artifact_id: str | None) -> None:
    """Print the outcome, the text a model would see, and how to read a truncated result."""
    print_report(out, await report_outcome(outcome, artifact_id))


def print_report(out: Output, report: JsonObject) -> None:
    """Print what `report_outcome` has of an outcome, of this process or of a running server."""
    became = ("ok", "green bold") if report["ok"] else (str(report["code"]), "red bold")
    ran = "" if report["attempts"] else ", did not run"
    took = f"in {format_duration(report['duration_ms'] / 1000)}{ran}"
    out.line((report["tool"], "bold"), " ", became, " ", (took, "dim"))
    out.line(("what the model sees:", "dim"))
    out.text(report["model_text"])
    if report["code"] == "needs_approval":
        out.line(("approve it with --yes, or run it at a terminal and confirm", "cyan"))
        if report["ticket"] is not None:
            approval_id = report["ticket"].partition("-")[0]
            out.line((f"or answer it later: spindle approvals approve {approval_id}", "cyan"))
    for media in report["media"]:
        out.text(f"media: {media['kind']} {media.get('mime_type', '')} {media.get('filename', '')}")
    if report["artifact"] is not None:
        _print_artifact(out, report["artifact"])


def _print_artifact(out: Output, artifact: JsonObject) -> None:
    description = f"{artifact['lines']} lines, {artifact['bytes']} bytes" if "lines" in artifact else "of unknown size"
    if artifact["id"] is None:
        out.line(("artifact:", "dim"), f" {description}, not stored; --output raw prints it in full")
        return
    out.line(("artifact:", "dim"), " ", (artifact["id"], "bold"), f", {description}, stored in full; read it with")
    short = artifact["id"].rpartition("/")[2]
    for command in ("head", "grep PATTERN", "cat"):
        verb, *rest = command.split()
        out.line((f"  spindle spool {' '.join([verb, short, *rest])}", "cyan"))


async def print_raw(out: Output, outcome: CallOutcome) -> None:
    """Print only the full result; an error goes to stderr."""
    result = outcome.result
    if isinstance(result, Err):
        print_message(f"{outcome.name}: {result.code}: {result.error}")
    elif isinstance(result.artifact, Artifact):
        out.bytes(await result.artifact.as_bytes())
    else:
        out.contents(result.value)


async def print_json(out: Output, outcome: CallOutcome, artifact_id: str | None) -> None:
    """Print the outcome as JSON; the keys are stable."""
    out.json(await report_outcome(outcome, artifact_id))


Shape = Literal["text", "json", "raw"]
SESSION = "cli"


@dataclass(frozen=True, kw_only=True, slots=True)
class _CallRequest:
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
        str, Parameter(help="key=value, key:=JSON or key=@file; values are converted by the tool's schema.")
    ],
    json: Annotated[
        str | None,
        Parameter(
            name="--json",
            allow_leading_hyphen=True,
            help="The arguments as a JSON object, or - for stdin; without a value, print JSON.",
        ),
    ] = None,
    output: Annotated[
        Shape,
        Parameter(name=("--output", "-o"), help="Output format, text by default; raw prints only the full result."),
    ] = "text",
    yes: Annotated[
        bool, Parameter(name=("--yes", "-y"), negative="", help="Approve the call if it requires approval.")
    ] = False,
    dry_run: Annotated[bool, Parameter(negative="", help="Describe the call without running it.")] = False,
    timeout: Annotated[float | None, Parameter(help="Cancel the call after this many seconds.")] = None,
    profile: Annotated[str | None, Parameter(help="Make the call as this profile.", completer=profile_names)] = None,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Call a tool and print its outcome, the text a model would see, and the id of a large result."""
    if timeout is not None and not 0 < timeout < 1e9:
        raise UsageError(f"--timeout must be a positive number of seconds, got {timeout:g}", field="timeout")
    request = _CallRequest(
        name=name,
        pairs=arguments,
        given=json,
        shape=output,
        yes=yes,
        dry_run=dry_run,
        timeout_seconds=timeout,
        profile=profile,
    )
    return anyio.run(_call, restrict_servers(where.load_for_tools(), name), request)


async def _call(config: Config, request: _CallRequest) -> int:
    with show_progress(f"{request.name} …") as progress:
        asking, events = build_approver(yes=request.yes, before=progress.clear), build_warning_events(progress)
        approve = None if asking is None else name_answers(asking, get_user())
        async with open_runtime(
            config,
            approve=approve,
            events=events,
            batch_timeout_seconds=request.timeout_seconds,
            profile=request.profile,
        ) as runtime:
            entry = runtime.registry.entry(request.name)
            if entry is None:
                raise build_unknown_tool_error(request.name, [tool.name for tool in runtime.registry])
            allowed = runtime.get_filter(request.profile)
            args = parse_arguments(request.pairs, request.given, entry.tool.describe()["input_schema"])
            call = Call(f"{request.name}-{secrets.token_hex(3)}", request.name, args)
            context = _context(request, progress, events)
            if config.flow is not None:
                cli.add_typed_arguments(context, args)
            [outcome] = await runtime.executor.execute_parallel([call], context, allowed)
            progress.clear()
            await _show(request.shape, outcome, runtime, f"{SESSION}/{context.turn_id}/{call.tool_call_id}")
            return REFUSED if find_refusal(entry, allowed) is not None else to_exit_code(outcome)


def _context(request: _CallRequest, progress: Progress, events: Events) -> ToolContext:
    def say(event: ToolProgress) -> None:
        percent = "" if event.percent is None else f" {event.percent:.0f} %"
        progress.update(f"{request.name}{percent} · {event.message}")

    def explain(event: Warned) -> None:
        if event.source == "spool" and event.error is not None:
            _print_not_kept(event.error)

    events.on("tool_progress", say)
    events.on("warning", explain)
    return ToolContext(
        session_id=SESSION,
        turn_id=datetime.now(UTC).date().isoformat(),
        events=events,
        dry_run=request.dry_run,
        open_gate=build_gate_handler(progress.clear),
    )


async def _find_artifact(outcome: CallOutcome, runtime: Runtime, place: str) -> str | None:
    """Return the id of the stored result; a spool that fails costs only the rest, not the answer."""
    if not isinstance(outcome.result, Ok) or outcome.result.artifact is None:
        return None
    try:
        return place if await runtime.spool.read(place) is not None else None
    except SpoolError as error:
        _print_not_kept(error)
        return None


def _print_not_kept(error: BaseException) -> None:
    print_message(f"the rest of the result could not be kept: {error}", "`spindle doctor` checks the spool")


async def _show(shape: Shape, outcome: CallOutcome, runtime: Runtime, place: str) -> None:
    artifact_id = await _find_artifact(outcome, runtime, place)
    match shape:
        case "json":
            await print_json(Output(), outcome, artifact_id)
        case "raw":
            await print_raw(Output(), outcome)
        case "text":
            await print_text(Output(), outcome, artifact_id)
