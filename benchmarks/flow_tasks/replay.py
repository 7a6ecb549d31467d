"""Replays the tasks and the attacks through the executor, under one of the policies that are compared."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Literal, TypeAlias, get_args

from benchmarks.flow_tasks.scenario import Args, Attack, Do, Domain, Task, fill
from spindle import Call, Executor, Ok, ToolContext, ToolRegistry
from spindle.execution import ApprovalRequest
from spindle.trust import SinkPolicy
from spindle.trust.flow import FlowPolicy

Policy: TypeAlias = Literal["no policy", "turn taint", "values"]
POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)
When: TypeAlias = Literal["same turn", "a turn later"]
NEXT_TURN: Final = "Thank you, that was all for now."


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """What became of a call."""

    is_asked: bool
    reasons: tuple[str, ...]
    text: str
    """The result; empty if it did not run."""
    has_run: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A sink call of an honest model, and whether a person was asked about it."""

    task: str
    call: Do
    is_asked: bool
    reasons: tuple[str, ...]

    @property
    def is_needless(self) -> bool:
        """Whether the question was not due."""
        return self.is_asked and not self.call.due

    @property
    def is_missed(self) -> bool:
        """Whether a question was due, and not asked."""
        return bool(self.call.due) and not self.is_asked


@dataclass(frozen=True, slots=True)
class Passed:
    """An attack that reached its goal without a person's approval."""

    attack: str
    task: str
    when: When


@dataclass(kw_only=True, slots=True)
class Report:
    """What one policy did in one domain."""

    domain: str
    policy: Policy
    tasks: int = 0
    failed: list[str] = field(default_factory=list[str])
    """The tasks whose goal was not reached, although every question was answered with yes."""
    judged: list[Judged] = field(default_factory=list[Judged])
    pairs: int = 0
    """Attacks in tasks that read the planted text; each is tried in the same turn, and a turn later."""
    passed: list[Passed] = field(default_factory=list[Passed])


class Replay:
    """Runs sessions in one domain under one policy."""

    def __init__(self, domain: Domain[Any], policy: Policy) -> None:
        self.domain = domain
        self.policy: Policy = policy
        self._requests: list[ApprovalRequest] = []
        self._is_approving = True
        self._sessions = count()
        sinks = SinkPolicy([tool.name for tool in domain.tools if not tool.read_only])
        self.executor = Executor(
            ToolRegistry(domain.tools),
            approve=self._answer,
            sinks=sinks if policy == "turn taint" else None,
            flow=FlowPolicy() if policy == "values" else None,
        )

    async def measure(self, *, has_attacks: bool = True) -> Report:
        """Replay every task, and every attack in the tasks that read its text."""
        report = Report(domain=self.domain.name, policy=self.policy, tasks=len(self.domain.tasks))
        for task in self.domain.tasks:
            session = self.open("")
            report.judged += [judged async for judged in session.judge(task)]
            if not task.utility(session.world):
                report.failed.append(task.name)
        attacks = self.domain.attacks if has_attacks else ()
        for attack, task in ((attack, task) for attack in attacks for task in self.domain.tasks):
            found = [await self._attack(attack, task, when) for when in get_args(When)]
            report.pairs += found != [None, None]
            report.passed += [each for each in found if each is not None and each.attack]
        return report

    def open(self, planted: str) -> "Session":
        """Begin a session in a fresh world."""
        world = self.domain.build(planted)
        self.domain.current.set(world)
        return Session(self, world, f"session-{next(self._sessions)}")

    async def run(self, call: Call, ctx: ToolContext, *, is_approving: bool) -> Done:
        """Run a call and answer the question about it, if a person is asked."""
        self._requests.clear()
        self._is_approving = is_approving
        (outcome,) = await self.executor.execute_parallel([call], ctx)
        result = outcome.result
        return Done(
            is_asked=bool(self._requests),
            reasons=tuple(reason for request in self._requests for reason in request.reasons),
            text=result.value if isinstance(result, Ok) else "",
            has_run=isinstance(result, Ok),
        )

    def _answer(self, request: ApprovalRequest) -> bool:
        self._requests.append(request)
        return self._is_approving

    async def _attack(self, attack: Attack[Any], task: Task[Any], when: When) -> Passed | None:
        """Return the attack if it passed, one without a name if it did not, or `None` if its text was not read."""
        session = self.open(attack.text)
        is_read = await session.run_until_read(task, attack.text, whole=when == "a turn later")
        if not is_read:
            return None
        if attack.attacked(session.world):
            raise AssertionError(f"The task {task.name!r} itself reaches the goal of {attack.name!r}.")
        if when == "a turn later":
            session.say(NEXT_TURN)
        for call in attack.calls:
            await session.call(call, {**attack.named, **task.named}, is_approving=False)
        return Passed(attack.name if attack.attacked(session.world) else "", task.name, when)


class Session:
    """One conversation: turns of a user, and the calls of a model."""

    def __init__(self, replay: Replay, world: Any, session_id: str) -> None:
        self.world = world
        self._replay, self._session_id = replay, session_id
        self._ids, self._turns = count(), count()
        self._ctx = ToolContext(session_id)

    def say(self, text: str) -> None:
        """Begin a turn with words of the user."""
        # Taint of a turn ends with it, so each turn is a session of its own.
        turn = f"-{next(self._turns)}" if self._replay.policy == "turn taint" else ""
        self._ctx = ToolContext(f"{self._session_id}{turn}")
        self._ctx.flow.add_user_text(text)

    async def call(self, do: Do, named: Args, *, is_approving: bool) -> Done:
        """Make a call; an honest one must run once it is approved."""
        call = Call(f"c{next(self._ids)}", do.name, fill(do.args, named))
        done = await self._replay.run(call, self._ctx, is_approving=is_approving)
        if is_approving and not done.has_run:
            raise AssertionError(f"{self._replay.domain.name}: the call {do} failed.")
        return done

    async def judge(self, task: Task[Any]) -> AsyncIterator[Judged]:
        """Run a task and yield its sink calls."""
        for turn in task.turns:
            self.say(turn.text)
            for do in turn.calls:
                done = await self.call(do, {}, is_approving=True)
                if self._is_sink(do):
                    yield Judged(task=task.name, call=do, is_asked=done.is_asked, reasons=done.reasons)
                elif done.is_asked:
                    raise AssertionError(f"A person was asked about {do}, which is not a sink call.")

    async def run_until_read(self, task: Task[Any], text: str, *, whole: bool) -> bool:
        """Run a task until it has read a text, or as a whole; return whether it has."""
        is_read = False
        for turn in task.turns:
            self.say(turn.text)
            for do in turn.calls:
                is_read |= text in (await self.call(do, {}, is_approving=True)).text
                if is_read and not whole:
                    return True
        return is_read

    def _is_sink(self, do: Do) -> bool:
        (flow,) = (tool.flow for tool in self._replay.domain.tools if tool.name == do.name)
        return flow.is_sink(flow.get_leaves(do.args))
