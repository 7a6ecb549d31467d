"""The calls in progress on a server, and the questions that the server asks while they run."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import anyio

from spindle.errors import GateNotSupportedError, InvalidGateError, UsageError
from spindle.events import Events
from spindle.mcp.client.upstream_questions import (
    Answered,
    Asker,
    Question,
    build_question,
    check_count,
    read_answer,
)
from spindle.mcp.client_requests import Root, ask_all, can_ask
from spindle.tools.context import ToolContext

_current: ContextVar["RunningCall | None"] = ContextVar("spindle_mcp_call", default=None)


@dataclass(eq=False)
class RunningCall:
    """A call that is waiting for its server."""

    server: str
    tool: str
    ctx: ToolContext
    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    """Extra headers of its HTTP requests."""
    can_sample: bool = False
    """Whether the server may ask the client's model."""
    can_list_roots: bool = False
    """Whether the server receives the client's roots; otherwise it gets an empty list."""
    has_client: bool = True
    """Whether a client waits for it; Spindle lists prompts and resources for itself."""
    _questions: set[anyio.CancelScope] = field(default_factory=set[anyio.CancelScope])

    async def ask(self, questions: Sequence[Question], events: Events) -> list[Answered]:
        """Ask the client behind the call all questions at once; they are cancelled when the call ends."""
        answers = [Answered(action="cancel", problem="the call has ended")] * len(questions)
        with anyio.CancelScope() as scope:
            self._questions.add(scope)
            try:
                answers = await self._ask_gates(questions, events)
            finally:
                self._questions.discard(scope)
        return answers

    async def _ask_gates(self, questions: Sequence[Question], events: Events) -> list[Answered]:
        asker = Asker(server=self.server, tool=self.tool, ctx=self.ctx)
        try:
            check_count(questions)
            asked = {place: build_question(asker, each) for place, each in enumerate(questions) if self._may_ask(each)}
        except (InvalidGateError, ValueError) as error:
            events.warn(f"MCP server {self.server!r} asked what cannot be asked: {error}", source="mcp")
            return [self._refuse(each) for each in questions]
        try:
            await ask_all(self.ctx, list(asked.values()))
        except (GateNotSupportedError, UsageError):  # nothing was sent
            return [self._refuse(each) for each in questions]
        except Exception:  # noqa: BLE001, S110  each gate says how it ended
            pass
        return [
            read_answer(each, asked[place]) if place in asked else self._refuse(each)
            for place, each in enumerate(questions)
        ]

    def _may_ask(self, question: Question) -> bool:
        if question.kind == "elicitation":
            return True
        is_allowed = self.can_sample if question.kind == "sampling" else self.can_list_roots
        return is_allowed and can_ask(self.ctx, question.kind)

    def _refuse(self, question: Question) -> Answered:
        if question.kind == "roots":
            return Answered(action="accept", value=list[Root]())
        return Answered(problem="sampling is not available here" if question.kind == "sampling" else None)

    def cancel_questions(self) -> None:
        """Cancel the questions that are still open."""
        for scope in list(self._questions):
            scope.cancel()


def get_current_headers() -> dict[str, str]:
    """Return the extra headers of the current call; empty outside of calls."""
    current = _current.get()
    return {} if current is None else current.headers


class RunningCalls:
    """The calls in progress on one server, used to find the call that an elicitation belongs to."""

    def __init__(self) -> None:
        self._running: dict[RunningCall, None] = {}

    def __len__(self) -> int:
        return len(self._running)

    @contextmanager
    def track(self, call: RunningCall) -> Generator[None]:
        """Register a call while it runs."""
        self._running[call] = None
        token = _current.set(call)
        try:
            yield
        finally:
            _current.reset(token)
            self.remove(call)

    def remove(self, call: RunningCall) -> None:
        """Remove a call that is answered or abandoned."""
        self._running.pop(call, None)
        call.cancel_questions()

    def find_for_question(self) -> RunningCall | None:
        """Return the call that a question belongs to, or `None` when it could belong to another session.

        Over HTTP the question arrives in the context of its call. Over stdio it names no call: it is asked only when
        all running calls of clients belong to the same session and turn.
        """
        current = _current.get()
        if current is not None and current in self._running:
            return current
        asked = [call for call in self._running if call.has_client]
        homes = {(call.ctx.session_id, call.ctx.turn_id) for call in asked}
        return asked[0] if len(homes) == 1 else None
