"""Approvals that are asked at one replica and answered at others, several answers at once, while replicas are killed.

Whatever happens, an approval that a client knows of can be answered, the first answer counts everywhere, and the
effect of an approved call happens once.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from spindle import Journal
from spindle.execution import list_approvals
from tests.journal.postgres_server import Server
from tests.soak.replicas import Replica, Replicas, UnansweredError
from tests.soak.results import Result

IN_FLIGHT = 8
MAX_TRIES = 120
KILL_EVERY = 50
COMMAND_EVERY = 25
"""One approval of this many is answered by `spindle approvals`, which takes a second of CPU."""


class Plan(NamedTuple):
    """One answer to give."""

    kind: str
    """`approve`, `edit` or `deny`."""
    by: str
    amount: int | None


class Reply(NamedTuple):
    """The final reply to an answer."""

    plan: Plan
    code: str
    text: str
    reason: str | None


class Asked(NamedTuple):
    """An approval that a client knows of, with everything that was said about it."""

    number: int
    tool: str
    amount: int
    id: str
    replies: list[Reply]


class ApprovalSoak:
    """One run: asks approvals and answers them, kills replicas, and restarts PostgreSQL in the middle on request."""

    def __init__(self, result: Result, replicas: Replicas, count: int) -> None:
        self._result = result
        self._replicas = replicas
        self._count = count
        self._done = 0
        self._progress = anyio.Event()
        self.asked: list[Asked] = []

    async def run(self, restart: Callable[[], None] | None) -> None:
        """Ask and answer all approvals."""
        send, receive = anyio.create_memory_object_stream[int](self._count)
        for number in range(self._count):
            send.send_nowait(number)
        send.close()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._kill_replicas)
            if restart is not None:
                tasks.start_soon(self._restart_database, restart)
            for _ in range(IN_FLIGHT):
                tasks.start_soon(self._work, receive.clone())
            receive.close()

    async def _work(self, numbers: Any) -> None:
        with numbers:
            async for number in numbers:
                self.asked.append(await self._ask_and_answer(number))
                self._done += 1
                self._progress.set()
                self._progress = anyio.Event()

    async def _wait_for(self, done: int) -> None:
        while self._done < done:
            await self._progress.wait()

    async def _kill_replicas(self) -> None:
        chance = random.Random(f"{self._result.seed} kills")
        for number, done in enumerate(range(KILL_EVERY // 2, self._count, KILL_EVERY)):
            await self._wait_for(done)
            victim = await self._find_paying() if number % 2 else None
            if victim is None:
                await anyio.sleep(chance.random() * 0.1)  # not to wait for something: any instant will do
                victim = self._replicas.choose(chance)
            await victim.kill()
            self._result.counts["kills"] += 1
            await victim.start()

    async def _find_paying(self) -> Replica | None:
        """Wait for the next effect, and return the replica that is still inside of that call."""
        known = read_effects(self._replicas.effects)
        for _ in range(1_000):
            effects = read_effects(self._replicas.effects)
            if len(effects) > len(known):
                return self._replicas.find(int(effects[-1].pid))
            await anyio.sleep(0.003)  # another process writes that file
        return None

    async def _restart_database(self, restart: Callable[[], None]) -> None:
        await self._wait_for(self._count // 2)
        await anyio.to_thread.run_sync(restart)
        self._result.counts["restarts"] += 1

    async def _ask_and_answer(self, number: int) -> Asked:
        chance = random.Random(f"{self._result.seed} {number}")
        tool, amount = chance.choice(("pay", "transfer")), chance.randrange(1, 1_000)
        approval_id, asker = await self._ask(chance, tool, {"number": number, "amount": amount})
        asked = Asked(number, tool, amount, approval_id, [])
        kinds = chance.choices(("approve", "edit", "deny"), (6, 2, 2), k=chance.choice((1, 2, 2, 3)))
        plans = [
            Plan(kind, f"person {place}", chance.randrange(1_000, 2_000) if kind == "edit" else None)
            for place, kind in enumerate(kinds)
        ]
        if number % COMMAND_EVERY == 0:
            asked.replies.append(await self._retry(lambda: self._answer_by_command(asked, plans[0])))
        else:
            async with anyio.create_task_group() as tasks:  # they race
                for plan in plans:
                    tasks.start_soon(self._answer, asked, plan, random.Random(f"{number} {plan.by}"), asker)
        await self._answer(asked, asked.replies[0].plan, chance, None)  # the same answer again
        return asked

    async def _ask(self, chance: random.Random, tool: str, arguments: dict[str, Any]) -> tuple[str, Replica]:
        async def ask() -> tuple[str, Replica]:
            replica = self._replicas.choose(chance)
            text = await self._replicas.call(replica, tool, arguments)
            found = re.search(r"Approval: (ap_\w+)", text)
            if found is None:
                raise UnansweredError(text[:300])
            return found[1], replica

        return await self._retry(ask)

    async def _answer(self, asked: Asked, plan: Plan, chance: random.Random, asker: Replica | None) -> None:
        async def answer() -> Reply:
            arguments = {"approval_id": asked.id, "approved": plan.kind != "deny", "number": asked.number}
            arguments |= {"by": plan.by} | ({} if plan.amount is None else {"amount": plan.amount})
            replica = self._replicas.choose(chance, other_than=asker)
            text = await self._replicas.call(replica, "answer", arguments)
            try:
                said = json.loads(text)
            except ValueError as error:
                raise UnansweredError(text[:300]) from error
            return _to_reply(plan, said["code"], said["text"], said["reason"])

        asked.replies.append(await self._retry(answer))

    async def _answer_by_command(self, asked: Asked, plan: Plan) -> Reply:
        changes = () if plan.amount is None else (f"amount={plan.amount}",)
        said = await self._replicas.run_command(plan.kind, asked.id, *changes, "--by", plan.by)
        if "tool_call_id" not in said:  # an error instead of an outcome
            raise UnansweredError(str(said)[:300])
        code = "ok" if said["ok"] else said["code"]
        return _to_reply(plan, code, said["value"] if said["ok"] else said["error"], said["reason"])

    async def _retry(self, act: Callable[[], Any]) -> Any:
        """Repeat what a killed replica or a lost database left without an answer, as a client does."""
        last: UnansweredError | None = None
        for _ in range(MAX_TRIES):
            try:
                return await act()
            except UnansweredError as error:
                last = error
                self._result.counts["repeated"] += 1
                await anyio.sleep(0.25)  # a client waits before it tries again
        raise RuntimeError(f"no replica answered {MAX_TRIES} times, seed {self._result.seed}") from last


def _to_reply(plan: Plan, code: str, text: str, reason: str | None) -> Reply:
    """Return a final reply.

    Raises:
        UnansweredError: The answer was not accepted, and may be given again: the journal could not be reached.
    """
    is_final = code in {"ok", "interrupted", "lost"} or (code == "denied" and reason in {None, "already_answered"})
    if not is_final:
        raise UnansweredError(f"{code} {text}")
    return Reply(plan, code, text, reason)


class Effect(NamedTuple):
    """One line of the file of effects."""

    tool: str
    call_id: str
    key: str
    number: str
    amount: str
    pid: str


def read_effects(path: Path) -> list[Effect]:
    """Return all effects so far, in the order in which they happened."""
    return [Effect(*line.split()) for line in path.read_text().splitlines()] if path.exists() else []


async def run_approvals(
    name: str, server: Server, dsn: str, folder: Path, *, count: int, seed: int, restart: bool
) -> Result:
    """Run one part of the soak and return what was found."""
    result = Result(name=name, seed=seed)

    def restart_server() -> None:
        server.kill()
        server.restart()

    async with Replicas(folder, dsn, count=3) as replicas:
        soak = ApprovalSoak(result, replicas, count)
        await soak.run(restart_server if restart else None)
    effects = read_effects(replicas.effects)
    async with Journal.postgres(dsn) as journal:
        known = {each.id: each for each in await list_approvals(journal, limit=None)}
    result.counts.update({"asked": len(soak.asked), "effects": len({each.key for each in effects})})
    for asked in soak.asked:
        approval = known.get(asked.id)
        result.expect(approval is not None, f"approval {asked.number} is lost")
        if approval is not None:
            own = [each for each in effects if each.call_id == approval.tool_call_id]
            _check(result, asked, own, approval.status)
    approved = {known[each.id].tool_call_id for each in soak.asked if each.id in known}
    strangers = {each.call_id for each in effects} - approved
    result.expect(not strangers, f"calls ran that nobody approved: {strangers}")
    return result


def _check(result: Result, asked: Asked, effects: list[Effect], status: str) -> None:
    """Compare what was said about an approval with what happened."""
    about = f"approval {asked.number} ({asked.tool}, {asked.id}, {status}): "
    codes = Counter((reply.code, reply.reason) for reply in asked.replies)
    texts = {reply.text for reply in asked.replies if reply.code == "ok"}
    winners = {(reply.plan.kind, reply.plan.amount) for reply in asked.replies if reply.reason is None}
    result.counts["acknowledged"] += 1
    result.counts["interrupted"] += codes["interrupted", None] > 0
    result.expect(not codes["lost", None], f"{about}it was lost")
    result.expect(status in {"finished", "denied"}, f"{about}it has not ended")
    result.expect(len(winners) == 1, f"{about}several answers counted: {winners}")
    result.expect(len({each.key for each in effects}) <= 1, f"{about}it ran under several keys: {effects}")
    if asked.tool == "pay":
        result.expect(len(effects) <= 1, f"{about}it ran {len(effects)} times")
    is_denied = codes["denied", None] > 0
    if is_denied:
        result.expect(not effects and not texts, f"{about}it was denied and ran")
    elif codes["interrupted", None]:
        result.expect(asked.tool == "pay" and not texts, f"{about}interrupted, although {codes} {texts}")
    else:
        ran = {f"{each.tool} {each.number} {each.amount}" for each in effects}
        result.expect(len(effects) >= 1, f"{about}it was approved and did not run")
        result.expect(texts == ran, f"{about}said {texts}, did {ran}")
