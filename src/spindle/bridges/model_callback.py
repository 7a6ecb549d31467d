"""The executor callback shared by all providers: request, stream, retry, report to observers, return a reply."""

import email.utils
import random
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Self, TypeAlias
from weakref import WeakKeyDictionary

import anyio

from spindle.bridges.provider import ModelResponse, Provider, ProviderFailure, ResponseAssembler, ResponseDelta
from spindle.bridges.rendering import MediaSupport
from spindle.bridges.transcript import Transcript
from spindle.calls import Call
from spindle.errors import BrokenAnswerError, InvalidToolArgsError, ModelUnavailableError
from spindle.tools.arguments import MASK, mask_arguments, read_arguments
from spindle.tools.filters import ToolFilter, intersect_filters
from spindle.turns.callback_reports import CallbackHelpers
from spindle.turns.context import DispatchContext
from spindle.turns.dispatch import Reply


class StreamReporter:
    """Reports the deltas of one response to observers, and marks them complete at the end."""

    def __init__(self, ctx: DispatchContext, helpers: CallbackHelpers, message_id: str) -> None:
        self._ctx = ctx
        self._helpers = helpers
        self._message_id = message_id
        self._started: set[str] = set()
        self._arguments: dict[str, str] = {}
        self._tools: dict[str, str] = {}
        self._reported: dict[str, tuple[str, Any]] = {}

    def report_delta(self, delta: ResponseDelta) -> None:
        """Report one delta."""
        if delta.kind == "text":
            self._started.add("message")
            self._helpers.report_message(self._message_id, delta.text)
        elif delta.kind == "thought":
            self._started.add("thought")
            self._helpers.report_thought(self._message_id, delta.text)
        else:
            self._arguments[delta.id] = self._arguments.get(delta.id, "") + delta.text
            tool = self._tools[delta.id] = delta.tool or self._tools.get(delta.id, "")
            # Partial JSON cannot be masked: show arguments only if the tool is known and has no secret fields.
            is_open = bool(tool) and not self._secret_fields(tool)
            self._report_call(delta.id, tool, self._arguments[delta.id] if is_open else MASK)

    def report_response(self, response: ModelResponse) -> None:
        """Report a response that was not streamed."""
        if response.text:
            self._helpers.report_message(self._message_id, response.text, is_complete=True)
        self._report_calls(response)

    def finish(self, response: ModelResponse) -> None:
        """Mark the streamed message and thought complete, and report the final calls."""
        if "thought" in self._started:
            self._helpers.report_thought(self._message_id, "", is_complete=True)
        if "message" in self._started:
            self._helpers.report_message(self._message_id, "", is_complete=True)
        self._report_calls(response)

    def _report_calls(self, response: ModelResponse) -> None:
        for call in response.calls:
            self._report_call(call.tool_call_id, call.name, self._mask_arguments(call))

    def _report_call(self, id: str, tool: str, args: Any) -> None:
        if self._reported.get(id) != (tool, args):
            self._reported[id] = (tool, args)
            self._helpers.report_tool_call(id, tool=tool, args=args)

    def _mask_arguments(self, call: Call) -> Any:
        secret = self._secret_fields(call.name)
        if not secret:
            return call.args
        try:
            return mask_arguments(read_arguments(call.args, tool=call.name, empty_ok=True), secret)
        except InvalidToolArgsError:
            return MASK

    def _secret_fields(self, tool: str) -> Collection[str]:
        found = self._ctx.tools.get(tool)
        return found.secret_fields if found is not None else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Retries:
    """How often a request to a provider is retried, and after which delay."""

    attempts: int = 3
    """Includes the first attempt; 1 disables retries."""
    base_seconds: float = 0.5
    cap_seconds: float = 30
    """Also the longest `retry-after` to wait for; a longer one ends the turn at once."""
    statuses: frozenset[int] = frozenset({408, 409, 429, 500, 502, 503, 504, 529})


_MAX_MESSAGE_CHARS: Final = 500
"""Maximum length of a server's message that an error repeats."""
_MIN_SECRET_CHARS: Final = 8
"""Shorter strings are not real keys, and masking them would alter unrelated text."""

Sleep: TypeAlias = Callable[[float], Awaitable[None]]


@dataclass(kw_only=True, eq=False)
class ModelCallback:
    """An executor callback: `TurnRunner(executor_callback=ModelCallback(...))`."""

    provider: Provider
    media_support: MediaSupport
    is_streaming: bool = True
    retries: Retries = field(default_factory=Retries)
    filter: ToolFilter | None = None
    sleep: Sleep = anyio.sleep
    close: Callable[[], Awaitable[None]] | None = None
    """Closes the client if the callback created it."""
    _transcripts: "WeakKeyDictionary[DispatchContext, Transcript]" = field(
        default_factory=WeakKeyDictionary[DispatchContext, Transcript], repr=False
    )

    async def __call__(self, ctx: DispatchContext, helpers: CallbackHelpers) -> Reply | None:
        """Request the model's next step; cancel the request at once when the turn is aborted.

        Raises:
            ModelUnavailableError: No attempt returned a complete response.
        """
        with anyio.CancelScope() as scope:
            forget = ctx.abort_signal.on_abort(scope.cancel)
            try:
                return await self._request_reply(ctx, helpers)
            finally:
                forget()
        return None

    async def aclose(self) -> None:
        """Close the connections this callback opened on this event loop; a client passed in stays open."""
        if self.close is not None:
            await self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def _request_reply(self, ctx: DispatchContext, helpers: CallbackHelpers) -> Reply:
        transcript = self._transcripts.setdefault(ctx, Transcript())
        steps = await transcript.build_steps(ctx, self.media_support)
        # A tool that is not shown must not run either; filters set by others on this dispatch stay in force.
        ctx.filter = intersect_filters(ctx.filter, self.filter)
        definitions = self.provider.definitions(ctx, ctx.filter)
        request = await self.provider.build_request(ctx, steps, definitions)
        taken = {record.id for record in ctx.tool_calls} | transcript.call_ids
        answered = await self._request_with_retries(
            ctx, helpers, request, lambda: self.provider.create_assembler(definitions, taken)
        )
        if answered.is_truncated:
            helpers.log.warn("the model's response was cut off", finish_reason=answered.finish_reason)
        transcript.add_response(text=answered.text, calls=answered.calls, raw=answered.raw)
        if answered.text is None and not answered.calls:
            return Reply(text="", usage=answered.usage)
        return Reply(text=answered.text, calls=tuple(answered.calls), usage=answered.usage)

    async def _request_with_retries(
        self,
        ctx: DispatchContext,
        helpers: CallbackHelpers,
        request: dict[str, Any],
        create_assembler: Callable[[], ResponseAssembler],
    ) -> ModelResponse:
        attempt = 1
        while True:
            try:
                return await self._attempt(ctx, helpers, request, create_assembler(), attempt)
            except Exception as error:
                failure = self._classify_error(error)
                if failure is None:
                    raise
                pause = self._retry_delay(failure, attempt)
                if pause is None:
                    raise ModelUnavailableError(
                        f"no complete response from the model after {attempt} attempts: {failure.message}",
                        http_status=failure.status,
                        attempts=attempt,
                    ) from self._safe_cause(error)
                helpers.log.warn("retrying the model request", reason=failure.message, attempt=attempt, seconds=pause)
            await self.sleep(pause)
            attempt += 1

    async def _attempt(
        self,
        ctx: DispatchContext,
        helpers: CallbackHelpers,
        request: dict[str, Any],
        assembler: ResponseAssembler,
        attempt: int,
    ) -> ModelResponse:
        telling = StreamReporter(ctx, helpers, f"m{ctx.iteration}" if attempt == 1 else f"m{ctx.iteration}.{attempt}")
        if not self.is_streaming:
            answered = await self.provider.complete(request, assembler)
            telling.report_response(answered)
            return answered
        async with self.provider.stream(request) as events:
            async for event in events:
                for piece in assembler.feed(event):
                    telling.report_delta(piece)
        if not assembler.is_complete:
            raise BrokenAnswerError("the stream ended before the response was complete")
        answered = assembler.build_response()
        telling.finish(answered)
        return answered

    def _classify_error(self, error: Exception) -> ProviderFailure | None:
        is_broken = isinstance(error, BrokenAnswerError)
        failure = ProviderFailure(str(error), error.http_status) if is_broken else self.provider.translate_error(error)
        if failure is None:
            return None
        says = failure.message
        for secret in self._secrets():
            says = says.replace(secret, MASK)
        return replace(failure, message=says if len(says) <= _MAX_MESSAGE_CHARS else f"{says[:_MAX_MESSAGE_CHARS]}…")

    def _safe_cause(self, error: Exception) -> Exception | None:
        """Return the error to chain, or `None` if a traceback of it would show a key."""
        chain: list[BaseException] = []
        link: BaseException | None = error
        while link is not None and link not in chain:
            chain.append(link)
            link = link.__cause__ or link.__context__
        is_told = any(secret in f"{each!r} {each}" for each in chain for secret in self._secrets())
        return None if is_told else error

    def _secrets(self) -> list[str]:
        return [secret for secret in self.provider.secrets() if len(secret) >= _MIN_SECRET_CHARS]

    def _retry_delay(self, failure: ProviderFailure, attempt: int) -> float | None:
        """Return the delay before the next attempt in seconds; `None` if there is no next attempt."""
        retries = self.retries
        if attempt >= retries.attempts or not (failure.status is None or failure.status in retries.statuses):
            return None
        asked_for = parse_retry_after(failure.retry_after)
        if asked_for is not None:
            return asked_for if asked_for <= retries.cap_seconds else None
        backoff = min(retries.cap_seconds, retries.base_seconds * 2 ** (attempt - 1))
        return backoff * random.uniform(0.5, 1)  # noqa: S311  jitter, not security


def parse_retry_after(retry_after: str | None) -> float | None:
    """Parse a `retry-after` header (seconds or a date); return `None` for anything else."""
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
