"""What every ready executor callback does: ask, follow the stream, try again, tell observers, give a reply."""

import email.utils
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, Self, TypeAlias
from weakref import WeakKeyDictionary

import anyio

from spindle.bridges.definitions import Definitions
from spindle.bridges.rendering import Sees
from spindle.bridges.transcript import Step, Transcript
from spindle.calls import Call
from spindle.errors import ModelUnavailableError
from spindle.tools.filters import ToolFilter
from spindle.turns.context import DispatchContext
from spindle.turns.dispatch import Reply
from spindle.turns.reporting import Helpers


@dataclass(frozen=True, kw_only=True, slots=True)
class Retries:
    """How often a provider is asked again, and after how long."""

    attempts: int = 3
    """The first one counts; 1 never asks again."""
    base_seconds: float = 0.5
    cap_seconds: float = 30
    """Also the longest `retry-after` that is waited for; a longer one ends the turn at once."""
    statuses: frozenset[int] = frozenset({408, 409, 429, 500, 502, 503, 504, 529})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a provider gave no whole answer."""

    says: str
    status: int | None = None
    """`None`: the connection failed, or broke off."""
    retry_after: str | None = None
    """The header as it came: seconds, or a date."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an answer as it streams in."""

    kind: Literal["text", "thought", "call"]
    text: str
    id: str = ""
    """Of the call, where it is part of one."""
    tool: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """One whole answer of a model."""

    text: str | None
    calls: Sequence[Call] = ()
    usage: Mapping[str, Any] | None = None
    """`input_tokens`, `output_tokens`, and what else the provider counts."""
    finish_reason: str | None = None
    raw: Any = None
    """What the provider wants back as the assistant's turn."""
    is_cut: bool = False
    """Whether the model was stopped before it came to an end by itself."""


class AnswerStream(Protocol):
    """Puts a streamed answer together; the `Stream` of each dialect is one."""

    def feed(self, event: Any) -> Sequence[Piece]:
        """Take one event of the stream, and give what is new in it."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether the provider said that this is the end."""
        ...

    def answered(self) -> Answered:
        """Give the whole answer."""
        ...


class Provider(Protocol):
    """One provider's API, behind its official SDK."""

    def definitions(self, ctx: DispatchContext, filter: ToolFilter | None) -> Definitions:
        """Give the tools in the provider's dialect."""
        ...

    async def request(self, ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions) -> dict[str, Any]:
        """Write the request."""
        ...

    def stream(self, request: dict[str, Any]) -> AbstractAsyncContextManager[AsyncIterator[Any]]:
        """Send the request, and give the events of the answer."""
        ...

    def reader(self, definitions: Definitions) -> AnswerStream:
        """Give what puts these events together."""
        ...

    async def whole(self, request: dict[str, Any], definitions: Definitions) -> Answered:
        """Send the request, and wait for the answer as a whole."""
        ...

    def failure(self, error: Exception) -> Failure | None:
        """Say what an exception of the SDK means; `None` for one that is not the provider's."""
        ...


Sleep: TypeAlias = Callable[[float], Awaitable[None]]


class _BrokenStreamError(Exception):
    """A stream ended before the provider said so; asked again like a broken connection."""


@dataclass(kw_only=True, eq=False)
class Asking:
    """An executor callback: `TurnRunner(executor_callback=Asking(...))`."""

    provider: Provider
    sees: Sees
    is_streaming: bool = True
    retries: Retries = field(default_factory=Retries)
    filter: ToolFilter | None = None
    sleep: Sleep = anyio.sleep
    close: Callable[[], Awaitable[None]] | None = None
    """Closes the client, where it is the callback's own."""
    _transcripts: "WeakKeyDictionary[DispatchContext, Transcript]" = field(
        default_factory=WeakKeyDictionary[DispatchContext, Transcript], repr=False
    )

    async def __call__(self, ctx: DispatchContext, helpers: Helpers) -> Reply | None:
        """Ask the model what to do next; when the turn is aborted, hang up at once.

        Raises:
            ModelUnavailableError: The provider gave no whole answer, however often it may be asked.
        """
        with anyio.CancelScope() as scope:
            forget = ctx.abort_signal.on_abort(scope.cancel)
            try:
                return await self._ask(ctx, helpers)
            finally:
                forget()
        return None

    async def aclose(self) -> None:
        """Close the connections this callback opened on this event loop; a client that it was given stays open."""
        if self.close is not None:
            await self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def _ask(self, ctx: DispatchContext, helpers: Helpers) -> Reply:
        transcript = self._transcripts.setdefault(ctx, Transcript())
        steps = await transcript.steps(ctx, self.sees)
        if self.filter is not None:
            # What is not shown may not run either.
            ctx.filter = self.filter
        definitions = self.provider.definitions(ctx, ctx.filter)
        request = await self.provider.request(ctx, steps, definitions)
        answered = await self._persist(ctx, helpers, request, definitions)
        if answered.is_cut:
            helpers.log.warn("the model was stopped before its end", finish_reason=answered.finish_reason)
        transcript.asked(text=answered.text, calls=answered.calls, raw=answered.raw)
        if answered.text is None and not answered.calls:
            return Reply(text="", usage=answered.usage)
        return Reply(text=answered.text, calls=tuple(answered.calls), usage=answered.usage)

    async def _persist(
        self, ctx: DispatchContext, helpers: Helpers, request: dict[str, Any], definitions: Definitions
    ) -> Answered:
        attempt = 1
        while True:
            try:
                return await self._attempt(ctx, helpers, request, definitions, attempt)
            except Exception as error:
                failure = self._failure(error)
                if failure is None:
                    raise
                pause = self._pause(failure, attempt)
                if pause is None:
                    raise ModelUnavailableError(
                        f"the model's server gave no whole answer after {attempt} attempts: {failure.says}",
                        http_status=failure.status,
                        attempts=attempt,
                    ) from error
                helpers.log.warn("asking the model again", reason=failure.says, attempt=attempt, seconds=pause)
            await self.sleep(pause)
            attempt += 1

    async def _attempt(
        self, ctx: DispatchContext, helpers: Helpers, request: dict[str, Any], definitions: Definitions, attempt: int
    ) -> Answered:
        message_id = f"m{ctx.iteration}" if attempt == 1 else f"m{ctx.iteration}.{attempt}"
        if not self.is_streaming:
            answered = await self.provider.whole(request, definitions)
            if answered.text:
                helpers.report_message(message_id, answered.text, is_complete=True)
            return answered
        reader = self.provider.reader(definitions)
        telling = _Telling(helpers, message_id)
        async with self.provider.stream(request) as events:
            async for event in events:
                for piece in reader.feed(event):
                    telling.tell(piece)
        if not reader.is_complete:
            raise _BrokenStreamError("the stream ended before the answer did")
        telling.finish()
        return reader.answered()

    def _failure(self, error: Exception) -> Failure | None:
        if isinstance(error, _BrokenStreamError):
            return Failure(str(error))
        return self.provider.failure(error)

    def _pause(self, failure: Failure, attempt: int) -> float | None:
        """How long to wait before the next attempt; `None`: there is none."""
        retries = self.retries
        if attempt >= retries.attempts or not (failure.status is None or failure.status in retries.statuses):
            return None
        asked_for = seconds_of(failure.retry_after)
        if asked_for is not None:
            return asked_for if asked_for <= retries.cap_seconds else None
        backoff = min(retries.cap_seconds, retries.base_seconds * 2 ** (attempt - 1))
        return backoff * random.uniform(0.5, 1)  # noqa: S311  spreads clients, guards nothing


class _Telling:
    """Reports pieces as they come, and completes what they began."""

    def __init__(self, helpers: Helpers, message_id: str) -> None:
        self._helpers = helpers
        self._message_id = message_id
        self._begun: set[str] = set()
        self._arguments: dict[str, str] = {}
        self._tools: dict[str, str] = {}

    def tell(self, piece: Piece) -> None:
        if piece.kind == "text":
            self._begun.add("message")
            self._helpers.report_message(self._message_id, piece.text)
        elif piece.kind == "thought":
            self._begun.add("thought")
            self._helpers.report_thought(self._message_id, piece.text)
        else:
            self._arguments[piece.id] = self._arguments.get(piece.id, "") + piece.text
            self._tools[piece.id] = piece.tool or self._tools.get(piece.id, "")
            self._helpers.report_tool_call(piece.id, tool=self._tools[piece.id], args=self._arguments[piece.id])

    def finish(self) -> None:
        if "thought" in self._begun:
            self._helpers.report_thought(self._message_id, "", is_complete=True)
        if "message" in self._begun:
            self._helpers.report_message(self._message_id, "", is_complete=True)


def seconds_of(retry_after: str | None) -> float | None:
    """Read a `retry-after` header: seconds, or a date; anything else says nothing."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        pass
    else:
        return max(0.0, seconds) if seconds == seconds else None  # noqa: PLR0124  NaN
    try:
        when = email.utils.parsedate_to_datetime(retry_after)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())
