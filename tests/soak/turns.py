"""Turns with counted effects: what a process does until it is killed, and what must hold then.

In the folder, `ran` has a line with the turn, the number and the idempotency key of a call for each time its handler
ran. `said` has a line for each turn that is started (`start`), that has ended (`ended`, with the code of each call),
or that turned out to have ended before its process could say so (`gone`).
"""

import json
import os
import secrets
from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import anyio

from spindle import Call, DispatchContext, Journal, Spool, ToolContext, TurnReport, TurnRunner, tool
from spindle.errors import InvalidAnswersError, InvalidTurnStateError, JournalError, TurnConflictError
from tests.execution.answering import open_journal
from tests.soak.batches import append, read_lines, wait_until_settled
from tests.soak.results import Result

KEY = "the state key of all processes"
MAX_TRIES = 400
REPLIES: Sequence[Sequence[tuple[str, int]]] = (
    (("note", 1), ("put", 2), ("note", 3)),
    (("put", 4),),
    (("guarded", 5),),
    (("note", 6),),
)
"""The tools and numbers that the model requests, reply by reply. `put` has a key, `guarded` needs approval."""
KEYED = {2, 4}
NUMBERS = {number for reply in REPLIES for _, number in reply}


def build_runner(folder: Path, journal: Journal) -> TurnRunner:
    """Build the runner of the story; every process has another one."""

    async def act(n: int, *, ctx: ToolContext) -> str:
        """Have an effect."""
        append(folder / "ran", [f"{ctx.turn_id} {n} {ctx.idempotency_key}"])
        await anyio.sleep(0.02)  # so that kills find calls running
        return f"did {n}"

    async def model(ctx: DispatchContext) -> Any:
        done = len(ctx.tool_calls)
        for reply in REPLIES:
            if done == 0:
                return [Call(secrets.token_hex(4), name, {"n": number}) for name, number in reply]
            done -= len(reply)
        return "done"

    return TurnRunner(
        executor_callback=model,
        tools=[
            tool(name="note")(act),
            tool(name="put", idempotent=True)(act),
            tool(name="guarded", requires_approval=True)(act),
        ],
        journal=journal,
        spool=Spool.files(folder / "spool"),
        state_key=KEY,
        on_wait="suspend",
    )


async def run_until_killed(folder: Path, place: str) -> None:
    """Resume the turns of earlier processes, then run new ones, until killed."""
    started, ended = read_said(folder)
    numbers = count()
    async with open_journal(place) as journal:
        runner = build_runner(folder, journal)
        for turn_id in started:
            if turn_id not in ended:
                await finish_turn(folder, runner, journal, turn_id, is_new=False)
        while True:
            turn_id = f"{os.getpid()}.{next(numbers)}"
            append(folder / "said", [f"start {turn_id}"])
            await finish_turn(folder, runner, journal, turn_id, is_new=True)


async def finish_turn(folder: Path, runner: TurnRunner, journal: Journal, turn_id: str, *, is_new: bool) -> None:
    """Bring a turn to its end, whatever has become of it before, and say so."""
    for _ in range(MAX_TRIES):
        try:
            report = await _advance(runner, turn_id, is_new=is_new)
            if report.status == "ok":
                codes = {each.args["n"]: each.code for each in report.tool_calls}
                return append(folder / "said", [f"ended {turn_id} {json.dumps(codes, separators=(',', ':'))}"])
            is_new = False
        except TurnConflictError:
            is_new = False  # it was saved before the connection to the journal was lost
        except InvalidTurnStateError as error:
            if error.reason != "unknown":
                raise
            if await _find_entries(journal, turn_id):
                return append(folder / "said", [f"gone {turn_id}"])
            is_new = True  # its process died before anything was written
        except JournalError:
            await anyio.sleep(0.2)  # the database is away
    raise RuntimeError(f"the turn {turn_id} has not ended after {MAX_TRIES} tries")


async def _advance(runner: TurnRunner, turn_id: str, *, is_new: bool) -> TurnReport:
    """Run or resume a turn, and approve what it waits for."""
    try:
        report = await (runner.run(messages=["go"], turn_id=turn_id) if is_new else runner.resume(turn_id=turn_id))
    except InvalidAnswersError as error:
        report = await runner.resume(turn_id=turn_id, answers=dict.fromkeys(error.ids, True))
    if report.state is not None:
        report = await runner.resume(report.state, {each["id"]: True for each in report.state["pending"]})
    return report


async def _find_entries(journal: Journal, turn_id: str) -> list[Any]:
    return [entry for entry in await journal.list(limit=None) if entry.turn_id == turn_id]


def read_said(folder: Path) -> tuple[list[str], dict[str, dict[int, str | None] | None]]:
    """Return the turns that were started, and the codes of those that ended; `None` if they could not be said."""
    started: list[str] = []
    ended: dict[str, dict[int, str | None] | None] = {}
    for verdict, turn_id, *codes in read_lines(folder / "said"):
        if verdict == "start":
            started.append(turn_id)
        else:
            read = {int(number): code for number, code in json.loads(codes[0]).items()} if codes else None
            ended.setdefault(turn_id, read)
    return started, ended


async def check(folder: Path, place: str, result: Result) -> None:
    """Resume every turn that has not ended, and compare what was said with what happened."""
    acknowledged = read_said(folder)[1]
    async with open_journal(place) as journal:
        await wait_until_settled(journal)
        runner = build_runner(folder, journal)
        for turn_id in read_said(folder)[0]:
            if turn_id not in acknowledged:
                await finish_turn(folder, runner, journal, turn_id, is_new=False)
        entries = await journal.list(limit=None)
    written: dict[str, dict[int, tuple[str, str | None]]] = defaultdict(dict)
    for entry in entries:
        written[entry.turn_id or ""][int(entry.args["n"])] = entry.state, entry.code
    ran: dict[tuple[str, int], list[str]] = defaultdict(list)
    for turn_id, number, key in read_lines(folder / "ran"):
        ran[turn_id, int(number)].append(key)
    started, ended = read_said(folder)
    result.counts["asked"] += len(started)
    result.counts["acknowledged"] += len(acknowledged)
    result.counts["effects"] += sum(len(set(keys)) for keys in ran.values())
    result.counts["interrupted"] += sum(entry.state == "interrupted" for entry in entries)
    for turn_id in started:
        codes = ended.get(turn_id)
        if codes is None:
            codes = {n: code if state == "finished" else state for n, (state, code) in written[turn_id].items()}
        _check_turn(result, turn_id, codes, written[turn_id], {n: ran[turn_id, n] for n in NUMBERS})


def _check_turn(
    result: Result,
    turn_id: str,
    codes: dict[int, str | None],
    written: dict[int, tuple[str, str | None]],
    ran: dict[int, list[str]],
) -> None:
    about = f"turn {turn_id}: reported {codes}, written {written}: "
    result.expect(codes.keys() == NUMBERS == written.keys(), f"{about}a call is missing")
    for number, code in codes.items():
        keys = ran[number]
        if code is None:
            is_once = len(set(keys)) == 1 if number in KEYED else len(keys) == 1
            result.expect(is_once, f"{about}{number} succeeded and ran {len(keys)} times")
            result.expect(written[number] == ("finished", None), f"{about}the outcome of {number} is lost")
        else:
            is_right = code == "interrupted" and number not in KEYED and len(keys) <= 1
            result.expect(is_right, f"{about}{number} ended with {code} and ran {len(keys)} times")
