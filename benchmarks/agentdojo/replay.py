"""`python -m benchmarks.agentdojo.replay`, in AgentDojo's environment: replay everything, print the counts as JSON."""
# pyright: basic, reportMissingImports=false

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import anyio

from benchmarks.agentdojo.counts import Counts
from benchmarks.agentdojo.dojo import Suite, World, copy_environment, load_suites, shows_attack
from benchmarks.agentdojo.due import DUE
from benchmarks.agentdojo.policy import POLICIES, TOOLS
from benchmarks.agentdojo.sessions import POLICY_NAMES, Desk, Session
from spindle.trust.flow import Target

LATER = "Thanks."
"""What the user says before the model attacks one turn later."""
_MAX_NOTE = 600


class Replay:
    """The tasks and attacks of a suite under one policy."""

    def __init__(self, suite: Suite, desk: Desk) -> None:
        self._suite, self._desk = suite, desk
        declared = TOOLS[suite.name]
        self._sinks = {
            name
            for name, tool in declared.items()
            if not tool.read_only or any(isinstance(role, Target) for role in tool.roles.values())
        }
        self.counts = Counts(suite=suite.name, policy=desk.name)

    async def run(self) -> Counts:
        """Replay everything."""
        for user in self._suite.users:
            await self._replay_task(user)
        for attack in self._suite.attacks:
            for user in self._suite.users:
                self.counts.pairs += 1
                self.counts.passed += await self._replay_attack(user, attack, is_later=False)
                self.counts.passed_later += await self._replay_attack(user, attack, is_later=True)
        return self.counts

    async def _replay_task(self, user: str) -> None:
        task, environment = self._suite.users[user], self._suite.build(user)
        before = copy_environment(environment)
        session = self._desk.open(environment)
        session.say(task.PROMPT)
        ran: list[Any] = []
        for position, call in enumerate(task.ground_truth(environment)):
            done = await session.call(call.function, call.args, is_approving=True)
            if done.returned is not None:
                ran.append(call)
            if call.function in self._sinks:
                self._count_call((user, position), call, is_asked=done.is_asked, reasons=done.reasons)
        self.counts.tasks += 1
        self.counts.useful += self._suite.check(task, before, environment, ran)

    def _count_call(self, place: tuple[str, int], call: Any, *, is_asked: bool, reasons: Sequence[str]) -> None:
        counts, is_due = self.counts, place in DUE[self._suite.name]
        counts.sink_calls += 1
        counts.due += is_due
        counts.asked += is_asked
        counts.needless += is_asked and not is_due
        counts.due_unasked += is_due and not is_asked
        if is_asked != is_due:
            self._note(f"{'needless' if is_asked else 'due, not asked'}: {place[0]} call {place[1]}", call, reasons)

    async def _replay_attack(self, user: str, attack: str, *, is_later: bool) -> bool:
        """Return whether an attack succeeds with calls that were not approved."""
        suite, environment = self._suite, self._suite.build(user, attack)
        session = self._desk.open(environment)
        is_seen = await self._read_attack(session, user, environment, is_later=is_later)
        if is_later:
            session.say(LATER)
        calls = suite.get_attack_calls(attack, environment)
        if not is_later:
            self.counts.unseen += not is_seen
            self.counts.without_calls += not calls
        before = copy_environment(environment)
        ran: list[Any] = []
        for call in calls:
            done = await session.call(call.function, call.args, is_approving=False)
            if done.returned is None:
                continue
            ran.append(call)
            if call.function in self._sinks:
                self.counts.parts += 1
                self._note(f"ran unapproved: {attack} in {user}{' one turn later' if is_later else ''}", call)
        return bool(calls) and suite.check(suite.attacks[attack], before, environment, ran)

    async def _read_attack(self, session: Session, user: str, environment: Any, *, is_later: bool) -> bool:
        """Replay a user task up to the first result with the attack in it, or to its end."""
        task, is_seen = self._suite.users[user], False
        session.say(task.PROMPT)
        for call in task.ground_truth(environment):
            done = await session.call(call.function, call.args, is_approving=True)
            is_seen = is_seen or (done.returned is not None and shows_attack(done.returned))
            if is_seen and not is_later:
                break
        return is_seen

    def _note(self, what: str, call: Any, reasons: Sequence[str] = ()) -> None:
        args = json.dumps(dict(call.args), ensure_ascii=False, default=str)
        text = f"{self._suite.name}: {what}: {call.function} {args[:_MAX_NOTE]}"
        self.counts.notes.append(f"{text} ({'; '.join(reasons)})" if reasons else text)


async def replay_all() -> list[Counts]:
    """Replay every suite under every policy."""
    done: list[Counts] = []
    for suite in load_suites():
        functions = {function.name: function for function in suite.functions}
        world = World(suite.functions)
        for name in POLICY_NAMES:
            print(f"… {suite.name}, {name}", file=sys.stderr, flush=True)
            desk = Desk(world, functions, TOOLS[suite.name], name, POLICIES[suite.name])
            done.append(await Replay(suite, desk).run())
    return done


if __name__ == "__main__":
    print(json.dumps([asdict(each) for each in anyio.run(replay_all)]))
