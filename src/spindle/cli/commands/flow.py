"""`spindle flow …`: explain the decision on a recorded call, and replay recorded calls under another policy."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
from cyclopts import App, Parameter

from spindle import execution
from spindle.cli.commands.journal import CallFilter, JournalSource, find_call, get_source, open_existing, read_calls
from spindle.cli.config.loader import Config, load_config
from spindle.cli.main import OK
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json
from spindle.cli.output import Output, build_warning_events, print_message, show_progress
from spindle.cli.runtime_flow import FlowDeclarations, build_flow_policy, get_flow
from spindle.cli.runtime_registry import open_registry
from spindle.errors import MissingExtraError, UsageError
from spindle.execution.approval_text import reveal
from spindle.execution.flow_explanation import FlowExplanation, explain_flow
from spindle.execution.flow_replay import FlowReplay, FlowSource, ReplayedCall, replay_flow
from spindle.journal.entries import JournalEntry
from spindle.json_types import JsonObject
from spindle.text import did_you_mean, shorten
from spindle.tools.declaration import Tool
from spindle.trust.flow.policy import FlowPolicy

if TYPE_CHECKING:
    from spindle.execution.tickets import Approval

_MAX_EXPLAINED = 10_000
"""The newest calls of a session that are read to explain one of them."""
_SHOWN_CHARS = 60
_JSON_CHARS = 2_000
_MARKS = {"newly asked": ("+", "yellow"), "no longer asked": ("-", "green"), "same": (" ", "")}

Offline = Annotated[
    bool, Parameter(negative="", help="Do not start MCP servers; their tools count as if nothing was declared.")
]

flow = App(name="flow", help="Explain which calls a person is asked about, and replay them.")


@flow.command
def explain(
    id: Annotated[str, Parameter(help="The id of the call, or the start of it.")],
    /,
    *,
    offline: Offline = False,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Explain a recorded call: what its session had read, where its values come from, and who approved it."""
    config = where.load_for_tools()
    source, _ = get_source(config)
    call = anyio.run(find_call, source, id)
    recorded = anyio.run(_read_session, source, call)
    tools = anyio.run(_load_tools, config, {call.tool}, offline)
    explained = explain_flow(recorded.entries, tools, build_flow_policy(config) or FlowPolicy(), call)
    out = Output()
    if json:
        out.json(_explanation_to_json(explained, recorded.approval))
    else:
        _print_explanation(out, explained, recorded.approval)
        _warn_without_policy(config)
    return OK


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PolicyChanges:
    """Another policy than that of the configuration."""

    policy: Annotated[Path | None, Parameter(help="Judge by [flow] of this configuration instead.")] = None
    sinks: Annotated[
        tuple[str, ...], Parameter(negative="", help="Judge exactly the calls of this tool; repeatable.")
    ] = ()
    directory: Annotated[
        tuple[str, ...], Parameter(negative="", help="Vouch for a value, such as target=ann@corp.example; repeatable.")
    ] = ()
    readers: Annotated[
        tuple[str, ...], Parameter(negative="", help="Add a reader of a private source, as TOOL=READER; repeatable.")
    ] = ()


_NO_CHANGES = PolicyChanges()


@flow.command
def replay(
    *,
    session: Annotated[str | None, Parameter(help="Only calls of this session.")] = None,
    limit: Annotated[int, Parameter(name=("--limit", "-n"), help="The newest calls to read, 1000 by default.")] = 1000,
    everything: Annotated[
        bool, Parameter(name="--all", negative="", help="Also show calls that are asked about neither way.")
    ] = False,
    changes: PolicyChanges = _NO_CHANGES,
    offline: Offline = False,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Judge recorded calls by the current or a changed policy, and show what would be asked; nothing is run."""
    config = where.load_for_tools()
    source, shown = get_source(config)
    if changes.policy is not None:
        config = replace(config, flow=load_config(changes.policy).flow)
    entries = anyio.run(read_calls, source, CallFilter(limit=max(limit, 0), session=session))
    names = {entry.tool for entry in entries}
    tools = anyio.run(_load_tools, config, names, offline)
    policy = _build_policy(config, changes, names | {tool.name for tool in tools})
    replayed, out = replay_flow(entries, tools, policy), Output()
    if json:
        out.json(_replay_to_json(replayed))
        return OK
    if not replayed.calls:
        print_message("no matching calls in the journal", f"the journal is {shown}")
        return OK
    _print_replay(out, replayed, everything=everything)
    if changes == _NO_CHANGES:
        _warn_without_policy(config)
    return OK


@dataclass(frozen=True, kw_only=True, slots=True)
class _Recorded:
    """What the journal has of a call."""

    entries: list[JournalEntry]
    """The calls of its session."""
    approval: "Approval | None"


async def _read_session(source: JournalSource, call: JournalEntry) -> _Recorded:
    entries = [call]
    if call.session_id is not None:
        found = await read_calls(source, CallFilter(limit=_MAX_EXPLAINED, session=call.session_id))
        keys = {entry.idempotency_key for entry in found}
        entries = found if call.idempotency_key in keys else [*found, call]
    return _Recorded(entries=entries, approval=await _find_approval(source, call))


async def _find_approval(source: JournalSource, call: JournalEntry) -> "Approval | None":
    with suppress(MissingExtraError):
        list_approvals = execution.list_approvals  # an extra
        async with open_existing(source) as journal:
            for each in await list_approvals(journal, limit=None):
                place = (each.tool_call_id, each.session_id, each.turn_id)
                if place == (call.tool_call_id, call.session_id, call.turn_id):
                    return each
    return None


async def _load_tools(config: Config, names: set[str], offline: bool) -> list[Tool]:  # noqa: FBT001  passed by anyio.run
    """Return the tools as the configuration declares them; only servers that own one of the names are started."""
    owners = {
        name: entry
        for name, entry in config.servers.items()
        if not offline and (not entry.prefix or any(tool.startswith(f"mcp__{name}__") for tool in names))
    }
    wanted = replace(config, servers=owners)
    declarations = FlowDeclarations(config)
    started = [name for name, entry in owners.items() if entry.enabled]
    with show_progress(f"starting {', '.join(started)} …" if started else "reading …") as progress:
        async with open_registry(wanted, events=build_warning_events(progress)) as registry:
            return [declarations.declare(tool) for tool in registry.all()]


def _build_policy(config: Config, changes: PolicyChanges, known: set[str]) -> FlowPolicy:
    base: FlowPolicy = build_flow_policy(config) or FlowPolicy()
    directory = _read_pairs("directory", changes.directory)
    readers = _read_pairs("readers", changes.readers)
    for name in (*changes.sinks, *readers):
        if name not in known:
            hint = did_you_mean(name, known)
            raise UsageError(f"no tool and no recorded call has the name {name!r}{hint and f'; {hint}'}", field="sinks")
    return FlowPolicy(
        sinks=changes.sinks or base.sinks,
        directory={**base.directory, **{key: [*base.directory.get(key, ()), *each] for key, each in directory.items()}},
        readers={**base.readers, **{key: [*base.readers.get(key, ()), *each] for key, each in readers.items()}},
    )


def _read_pairs(option: str, given: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in given:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip() or not value.strip():
            raise UsageError(f"expected --{option} NAME=VALUE, got {pair!r:.80}", field=option)
        found.setdefault(key.strip(), []).append(value.strip())
    return found


def _warn_without_policy(config: Config) -> None:
    if get_flow(config) is None:
        print_message(
            "flow is off: the configuration has no [flow]", "judged by a policy without a directory; see docs/flow.md"
        )


def _print_explanation(out: Output, explained: FlowExplanation, approval: "Approval | None") -> None:
    entry = explained.entry
    out.line((f"{entry.tool_call_id}  {entry.tool}", "bold"))
    out.line(f"  {_format_time(entry.started_at)}, session {entry.session_id}, turn {entry.turn_id}")
    if not explained.is_known:
        out.line(("  the tool is gone, or its server is not started: judged as if nothing was declared", "yellow"))
    out.line()
    out.line(("what the session had read before", "bold"))
    for number, source in enumerate(explained.sources, 1):
        _print_source(out, number, source)
    if not explained.sources:
        out.line("  nothing")
    out.line()
    out.line(("values of the call", "bold"))
    for value in explained.values:
        role = value.role if value.is_declared else f"{value.role}, undeclared"
        out.line("  ", (value.path, "cyan"), f" ({role}): ", _quote(value.value))
        out.line("      ", (value.detail, "yellow" if value.origin in {"foreign", "nowhere"} else "green"))
    if not explained.values:
        out.line("  none")
    out.line()
    _print_decision(out, explained, approval)


def _print_source(out: Output, number: int, source: FlowSource) -> None:
    what = "the user" if not source.tool and not source.is_outside else f"result {source.call_id} of {source.tool}"
    if source.is_outside:
        what = "something that the journal does not have, such as a memory"
    out.line(
        f"  {number} {source.at.astimezone():%H:%M:%S} ",
        (what, "cyan"),
        f", {source.label}: " if source.text else f", {source.label}",
        _quote(source.text) if source.text else "",
        ("  <- tainted the session", "yellow bold") if source.taints else "",
    )


def _print_decision(out: Output, explained: FlowExplanation, approval: "Approval | None") -> None:
    out.line(("decision", "bold"))
    if not explained.is_judged:
        out.line("  no policy judged this call when it was made")
    elif explained.was_asked:
        out.line("  a person was asked", *([] if explained.reasons else [": the tool always requires approval"]))
    else:
        out.line(f"  ran unasked; the session was {'tainted' if explained.was_tainted else 'clean'}")
    for reason in explained.reasons:
        out.line("    - ", reason)
    if explained.was_asked or approval is not None:
        out.line(f"  {_describe_answer(approval)}")
    word = "would be asked" if explained.would_ask else "would run unasked"
    if explained.is_judged and explained.would_ask == explained.was_asked:
        out.line(f"  now: the same, it {word}")
        return
    out.line((f"  now: it {word}", "yellow"))
    for reason in explained.reasons_now:
        out.line("    - ", reason)


def _describe_answer(approval: "Approval | None") -> str:
    if approval is None:
        return "the answer is not in the journal"
    if approval.answered_at is None:
        return f"not answered: {approval.status} ({approval.id})"
    word = "denied" if approval.status == "denied" else "approved"
    who = f" by {approval.answered_by}" if approval.answered_by else ""
    return f"{word}{who}, {_format_time(approval.answered_at)} ({approval.id})"


def _print_replay(out: Output, replayed: FlowReplay, *, everything: bool) -> None:
    for call in replayed.calls:
        if everything or call.was_asked or call.would_ask:
            _print_replayed(out, call)
    totals = (
        f"{len(replayed.calls)} calls: asked before {replayed.asked_before}, asked now {replayed.asked_now}, "
        f"newly asked {replayed.newly_asked}, no longer asked {replayed.no_longer_asked}"
    )
    out.line((totals, "bold"))


def _print_replayed(out: Output, call: ReplayedCall) -> None:
    entry = call.entry
    out.line(
        _MARKS[call.change],
        f" {entry.started_at.astimezone():%m-%d %H:%M:%S} ",
        (f"{entry.tool} {entry.tool_call_id}", "cyan"),
        f": {'was asked' if call.was_asked else 'ran'}, {'would be asked' if call.would_ask else 'would run'}",
        "" if call.is_known else " (the tool is gone)",
    )
    for reason in call.reasons:
        out.line("      - ", reason)


def _explanation_to_json(explained: FlowExplanation, approval: "Approval | None") -> JsonObject:
    entry = explained.entry
    facts: JsonObject = {
        name: getattr(explained, name)
        for name in ("is_known", "is_judged", "was_tainted", "was_asked", "reasons", "would_ask", "reasons_now")
    }
    answered = approval and {
        "id": approval.id,
        "status": approval.status,
        "by": approval.answered_by,
        "at": approval.answered_at,
    }
    return {
        **_call_to_json(entry),
        **facts,
        "sources": [asdict(each) | {"text": shorten(each.text, _JSON_CHARS)} for each in explained.sources],
        "values": [asdict(each) for each in explained.values],
        "approval": answered,
    }


def _replay_to_json(replayed: FlowReplay) -> JsonObject:
    totals = ("asked_before", "asked_now", "newly_asked", "no_longer_asked")
    names = ("was_asked", "was_reasons", "would_ask", "reasons", "change", "tainted", "is_known")
    return {
        "calls": [_call_to_json(call.entry) | {name: getattr(call, name) for name in names} for call in replayed.calls],
        "totals": {"calls": len(replayed.calls), **{name: getattr(replayed, name) for name in totals}},
    }


def _call_to_json(entry: JournalEntry) -> JsonObject:
    names = ("tool_call_id", "tool", "session_id", "turn_id", "started_at", "args")
    return {name: getattr(entry, name) for name in names}


def _quote(text: str) -> str:
    return f'"{reveal(shorten(text, _SHOWN_CHARS))}"'


def _format_time(moment: datetime) -> str:
    return moment.astimezone().isoformat(sep=" ", timespec="seconds")
