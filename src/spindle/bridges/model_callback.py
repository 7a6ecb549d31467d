"""The executor callback shared by all providers: request, stream, retry, report to observers, return a reply."""

import email.utils
import random
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Self, TypeAlias
from weakref import WeakKeyDictionary

import anyio

from spindle.bridges.context_overflow import find_context_overflow
from spindle.bridges.provider import (
    ApiProvider,
    ModelResponse,
    Provider,
    ProviderFailure,
    ResponseAssembler,
    ResponseDelta,
)
from spindle.bridges.rendering import MediaSupport
from spindle.bridges.transcript import Transcript
from spindle.calls import RawArgs
from spindle.capabilities.secrets.secret import Redactor
from spindle.errors import BrokenAnswerError, ContextOverflowError, ModelUnavailableError, UsageError
from spindle.json_types import JsonObject
from spindle.text import MASK, shorten
from spindle.tools.arguments import mask_call_arguments
from spindle.tools.filters import ToolFilter, intersect_filters
from spindle.turns.callback_reports import CallbackHelpers
from spindle.turns.context import DispatchContext
from spindle.turns.report import Reply


class _EmptyStreamError(BrokenAnswerError):
    """A stream broke before the model's first word; some servers say why only if they are asked for no stream."""


class StreamReporter:
    """Reports the deltas of one response to observers, and marks them complete at the end."""

    def __init__(self, ctx: DispatchContext, helpers: CallbackHelpers, message_id: str) -> None:
        self._ctx = ctx
        self._helpers = helpers
        self._message_id = message_id
        self.has_reported = False
        """Whether there was a delta."""
        self._started: set[str] = set()
        self._arguments: dict[str, str] = {}
        self._tools: dict[str, str] = {}
        self._reported: dict[str, tuple[str, RawArgs]] = {}

    def report_delta(self, delta: ResponseDelta) -> None:
        """Report one delta."""
        self.has_reported = True
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
            secret_fields = self._secret_fields(call.name)
            args = mask_call_arguments(call.args, tool=call.name, secret_fields=secret_fields)
            self._report_call(call.tool_call_id, call.name, args)

    def _report_call(self, id: str, tool: str, args: RawArgs) -> None:
        if self._reported.get(id) != (tool, args):
            self._reported[id] = (tool, args)
            self._helpers.report_tool_call(id, tool=tool, args=args)

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
    context_tokens: int | None = None
    """The size of the model's context window, if it is known; the default budget of results follows it."""
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
            ContextOverflowError: The prompt does not fit into the model's context window.
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

    def save_state(self, ctx: DispatchContext) -> JsonObject | None:
        """Return what a provider said in its own form, as JSON, for the state of a suspended turn."""
        transcript = self._transcripts.get(ctx)
        return None if transcript is None else transcript.save()

    def restore_state(self, ctx: DispatchContext, saved: JsonObject) -> None:
        """Set what `save_state` returned, for the same turn in another process."""
        transcript = self._transcripts[ctx] = Transcript()
        transcript.restore(saved)

    async def _request_reply(self, ctx: DispatchContext, helpers: CallbackHelpers) -> Reply:
        transcript = self._transcripts.setdefault(ctx, Transcript())
        steps = await transcript.build_steps(ctx, self.media_support)
        # A tool that is not shown must not run either; filters set by others on this dispatch stay in force.
        ctx.filter = intersect_filters(ctx.filter, self.filter)
        definitions = self.provider.definitions(ctx, ctx.filter)
        request = await self.provider.build_request(ctx, steps, definitions)
        response = await self._request_with_retries(
            ctx, helpers, request, lambda: self.provider.create_assembler(definitions, transcript.call_ids)
        )
        if response.is_truncated:
            helpers.log.warn("the model's response was cut off", finish_reason=response.finish_reason)
        transcript.add_response(text=response.text, calls=response.calls, raw=response.raw)
        if response.text is None and not response.calls:
            return Reply(text="", usage=response.usage)
        return Reply(text=response.text, calls=tuple(response.calls), usage=response.usage)

    async def _request_with_retries(
        self,
        ctx: DispatchContext,
        helpers: CallbackHelpers,
        request: JsonObject,
        create_assembler: Callable[[], ResponseAssembler],
    ) -> ModelResponse:
        attempt, is_streaming = 1, self.is_streaming
        while True:
            reporter = StreamReporter(ctx, helpers, f"m{ctx.iteration}" + (f".{attempt}" if attempt > 1 else ""))
            try:
                return await self._attempt(request, create_assembler(), reporter, is_streaming=is_streaming)
            except Exception as error:
                is_streaming = is_streaming and not isinstance(error, _EmptyStreamError)
                failure = self._classify_error(error)
                if failure is None:
                    raise
                self._raise_for_overflow(failure, error)
                pause, said = self._retry_delay(failure, attempt), shorten(failure.message, _MAX_MESSAGE_CHARS)
                if pause is None:
                    raise ModelUnavailableError(
                        f"no complete response from the model after {attempt} attempts: {said}",
                        http_status=failure.status,
                        attempts=attempt,
                    ) from self._safe_cause(error)
                helpers.log.warn("retrying the model request", reason=said, attempt=attempt, seconds=pause)
            await self.sleep(pause)
            attempt += 1

    async def _attempt(
        self, request: JsonObject, assembler: ResponseAssembler, reporter: StreamReporter, *, is_streaming: bool
    ) -> ModelResponse:
        if not is_streaming:
            response = await self.provider.complete(request, assembler)
            reporter.report_response(response)
            return response
        try:
            await self._read_stream(request, assembler, reporter)
        except BrokenAnswerError as error:
            if reporter.has_reported:
                raise
            raise _EmptyStreamError(str(error), http_status=error.http_status, body=error.body) from error
        response = assembler.build_response()
        reporter.finish(response)
        return response

    async def _read_stream(self, request: JsonObject, assembler: ResponseAssembler, reporter: StreamReporter) -> None:
        async with self.provider.stream(request) as events:
            async for event in events:
                for piece in assembler.feed(event):
                    reporter.report_delta(piece)
        if not assembler.is_complete:
            raise BrokenAnswerError("the stream ended before the response was complete")

    def _classify_error(self, error: Exception) -> ProviderFailure | None:
        is_broken = isinstance(error, BrokenAnswerError)
        if is_broken:
            failure = ProviderFailure(str(error), error.http_status, body=error.body)
        else:
            failure = self.provider.translate_error(error)
        return None if failure is None else replace(failure, message=self._build_redactor().redact(failure.message))

    def _raise_for_overflow(self, failure: ProviderFailure, error: Exception) -> None:
        """Raise `ContextOverflowError` if the provider says that the prompt is too long; a retry would not help."""
        overflow = find_context_overflow(failure.message, status=failure.status, body=failure.body)
        if overflow is not None:
            raise ContextOverflowError(
                f"The prompt does not fit into the model's context window; shorten the conversation and run the turn "
                f"again. The server says: {shorten(failure.message, _MAX_MESSAGE_CHARS)}",
                prompt_tokens=overflow.prompt_tokens,
                context_tokens=overflow.context_tokens or self.context_tokens,
                http_status=failure.status,
            ) from self._safe_cause(error)

    def _safe_cause(self, error: Exception) -> Exception | None:
        """Return the error to chain, or `None` if a traceback of it would show a key."""
        chain: list[BaseException] = []
        link: BaseException | None = error
        while link is not None and link not in chain:
            chain.append(link)
            link = link.__cause__ or link.__context__
        shown = "\n".join(f"{each!r} {each}" for each in chain)
        return error if self._build_redactor().redact(shown) is shown else None

    def _build_redactor(self) -> Redactor:
        return Redactor(secret for secret in self.provider.secrets() if len(secret) >= _MIN_SECRET_CHARS)

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


def create_callback(
    provider: ApiProvider,
    *,
    stream: bool,
    retries: Retries | None,
    filter: ToolFilter | None,
    media: MediaSupport | None,
    context_tokens: int | None,
    close: Callable[[], Awaitable[None]] | None = None,
) -> ModelCallback:
    """Return the executor callback of a provider, with the options that every provider's function takes.

    Raises:
        UsageError: `context_tokens` is not a positive integer.
    """
    if context_tokens is not None and (type(context_tokens) is not int or context_tokens < 1):
        raise UsageError(
            f"Expected context_tokens to be a whole number of at least 1, or None, got {context_tokens!r}.",
            field="context_tokens",
        )
    return ModelCallback(
        provider=provider,
        media_support=provider.api.restrict_media(media),
        is_streaming=stream,
        retries=retries or Retries(),
        filter=filter,
        context_tokens=context_tokens,
        close=close,
    )


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
