"""Batches of journalled calls with counted effects: what a process does until it is killed, and what must hold then.

In the folder, `ran` has a line with the id and the idempotency key of a call for each time its handler ran. `said` has
a line for each call that is about to be handed over (`asked`) and for each outcome: `answered`, with its code and a
digest, or `unsaved` if a warning said that it may not be in the journal. A call that was not begun is asked for again.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from spindle import Budget, Call, CallOutcome, Err, Events, Executor, Journal, Spool, Tool, ToolContext, ToolRegistry
from tests.execution.answering import open_journal
from tests.soak.results import Result

NAMES = ("quick", "slow", "big", "blocking", "keyed", "nobody", "quick", "keyed")
MAX_TRIES = 400
SETTLE_SECONDS = 120.0


def append(path: Path, lines: Iterable[str]) -> None:
    """Append lines with one write, so that a kill leaves all of them or none."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, "".join(f"{line}\n" for line in lines).encode())
    finally:
        os.close(handle)


def read_lines(path: Path) -> list[list[str]]:
    """Return the words of each line; there may be no file yet."""
    return [line.split(" ") for line in path.read_text().splitlines()] if path.exists() else []


def build_executor(folder: Path, journal: Journal) -> Executor:
    """Build an executor with the tools of this story."""

    def note(ctx: ToolContext) -> str:
        append(folder / "ran", [f"{ctx.tool_call_id} {ctx.idempotency_key}"])
        return f"done {ctx.tool_call_id}"

    async def quick(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        return note(ctx)

    async def slow(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        said = note(ctx)
        await anyio.sleep(0.03)  # longer than an outcome waits for others, so that siblings are written before
        return said

    async def big(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        return f"{note(ctx)}\n" * 500

    def blocking(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        return note(ctx)

    tools = [_build_tool(each) for each in (quick, slow, big, blocking)]
    tools.append(_build_tool(slow, name="keyed", idempotent=True))
    spool = Spool.files(folder / "spool")
    return Executor(ToolRegistry(tools), journal=journal, spool=spool, budget=Budget(4_000))


def _build_tool(handler: Any, **options: Any) -> Tool:
    facts: dict[str, Any] = {"name": handler.__name__, "description": "Note.", "input_schema": {"type": "object"}}
    return Tool(handler=handler, **(facts | options))


def get_tool(call_id: str) -> str:
    """Return the tool of a call id, which is `process.number.tool`."""
    return call_id.rsplit(".", 1)[1]


class Said(NamedTuple):
    """What became of one call in one batch."""

    call_id: str
    verdict: str
    """`answered`, `unsaved` or `refused`."""
    answer: str
    """The code, and a digest of what the model is shown."""


async def ask(executor: Executor, ids: Sequence[str]) -> list[Said]:
    """Ask for calls of the one turn of this story."""
    warnings: list[object] = []
    events = Events()
    events.on("warning", warnings.append)
    calls = [Call(each, get_tool(each), {"id": each}) for each in ids]
    outcomes = await executor.execute_parallel(calls, ToolContext("session", turn_id="turn", events=events))
    return [_describe(outcome, is_warned=bool(warnings)) for outcome in outcomes]


def _describe(outcome: CallOutcome, *, is_warned: bool) -> Said:
    result = outcome.result
    code, text = (result.code, result.error) if isinstance(result, Err) else ("ok", result.value)
    answer = f"{code} {sha256(text.encode()).hexdigest()[:16]}"
    is_refused = code not in {"ok", "interrupted"} and get_tool(outcome.tool_call_id) != "nobody"
    verdict = "refused" if is_refused else "unsaved" if is_warned else "answered"
    return Said(outcome.tool_call_id, verdict, answer)


async def run_until_killed(folder: Path, place: str) -> None:
    """Ask again for what earlier processes left without an answer, then for new calls, until killed."""
    asked, answered = read_said(folder)
    open_calls = [each for each in asked if each not in answered]
    numbers = count()
    async with open_journal(place) as journal:
        executor = build_executor(folder, journal)
        while True:
            ids, open_calls = open_calls[: len(NAMES)], open_calls[len(NAMES) :]
            if not ids:
                ids = [f"{os.getpid()}.{next(numbers)}.{name}" for name in NAMES]
                append(folder / "said", (f"asked {each}" for each in ids))
            said = await ask(executor, ids)
            ended = [each for each in said if each.verdict != "refused"]
            append(folder / "said", (f"{each.verdict} {each.call_id} {each.answer}" for each in ended))
            if len(ended) < len(said):
                open_calls += [each.call_id for each in said if each.verdict == "refused"]
                await anyio.sleep(0.05)  # the journal is not reachable, or a killed process still counts as alive


def read_said(folder: Path) -> tuple[list[str], dict[str, tuple[str, str]]]:
    """Return the ids that were asked for, and the first verdict and answer of those that have one."""
    asked: list[str] = []
    answered: dict[str, tuple[str, str]] = {}
    for verdict, call_id, *answer in read_lines(folder / "said"):
        if verdict == "asked":
            asked.append(call_id)
        else:
            answered.setdefault(call_id, (verdict, " ".join(answer)))
    return asked, answered


async def wait_until_settled(journal: Journal) -> None:
    """Wait until no call of a killed process counts as running: after a restart PostgreSQL waits for reconnections."""
    with anyio.fail_after(SETTLE_SECONDS):
        while await journal.list("started"):  # noqa: ASYNC110 - no event says that the time has passed
            await anyio.sleep(0.2)


async def check(folder: Path, place: str, result: Result) -> None:
    """Ask for every call again and compare."""
    asked, answered = read_said(folder)
    async with open_journal(place) as journal:
        await wait_until_settled(journal)
        before = {entry.tool_call_id: entry for entry in await journal.list(limit=None)}
        executor = build_executor(folder, journal)
        final = await _ask_all(executor, asked)
        reported = {entry.tool_call_id for entry in await journal.interrupted()}
    ran: dict[str, list[str]] = defaultdict(list)
    for call_id, key in read_lines(folder / "ran"):
        ran[call_id].append(key)
    result.counts["asked"] += len(asked)
    result.counts["acknowledged"] += len(answered)
    result.counts["effects"] += sum(len(set(keys)) for keys in ran.values())
    result.counts["interrupted"] += len(reported)
    result.expect(ran.keys() <= set(asked) & before.keys() | final.keys(), "a call ran that is not in the journal")
    for call_id in asked:
        _check_call(
            result, call_id, answered.get(call_id), final[call_id], ran[call_id], is_reported=call_id in reported
        )
    for call_id, (verdict, answer) in answered.items():
        is_lost = verdict == "answered" and answer.startswith("ok ") and before[call_id].state != "finished"
        result.expect(not is_lost, f"{call_id}: the acknowledged outcome is not in the journal")


async def _ask_all(executor: Executor, asked: Sequence[str]) -> dict[str, str]:
    final: dict[str, str] = {}
    left = list(asked)
    for _ in range(MAX_TRIES):
        if not left:
            break
        said = [each for start in range(0, len(left), 50) for each in await ask(executor, left[start : start + 50])]
        final |= {each.call_id: each.answer for each in said}
        left = [each.call_id for each in said if each.verdict == "refused"]
        if left:
            await anyio.sleep(0.1)  # the journal refuses calls while it is not reachable
    return final


def _check_call(
    result: Result, call_id: str, said: tuple[str, str] | None, final: str, ran: list[str], *, is_reported: bool
) -> None:
    tool, code = get_tool(call_id), final.partition(" ")[0]
    about = f"{call_id}: said {said}, ends {code}, ran {len(ran)} times: "
    if said is not None and said[1].startswith("interrupted "):  # how much is shown of its text depends on the batch
        result.expect(code == "interrupted", f"{about}an interrupted call has another end")
    elif said is not None and said[0] == "answered" and tool != "nobody":
        result.expect(final == said[1], f"{about}the acknowledged answer has changed")
    if tool == "nobody":
        result.expect(code == "not_available" and not ran, f"{about}an unknown tool")
    elif tool == "keyed":
        result.expect(code == "ok" and len(set(ran)) == 1, f"{about}a keyed call has not one effect")
    else:
        result.expect(len(ran) <= 1, f"{about}a call without a key was repeated")
        result.expect(code in {"ok", "interrupted"}, f"{about}it has no outcome")
        result.expect(len(ran) == 1 or code == "interrupted", f"{about}a success without an effect")
        result.expect((code == "interrupted") == is_reported, f"{about}an interrupted call is not reported")
