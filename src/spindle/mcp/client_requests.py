"""Requests from a tool to the MCP client behind its call: sampling, roots, and several requests at once.

A question to the client's user is a plain `Gate`. Every request waits like a gate: it has its own timeout and ends when
the call is cancelled. Read `ask_all`.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

import anyio

from spindle.errors import GateNotSupportedError, UsageError
from spindle.json_types import JsonObject, JsonValue, untyped
from spindle.media import Media
from spindle.tools.context import ToolContext
from spindle.tools.schema.base import describe_kind
from spindle.turns.gates import Gate

OpenGate: TypeAlias = Callable[[Gate], Awaitable[Any]]
AskAll: TypeAlias = Callable[[Sequence[Gate]], Awaitable[list[Any]]]
Round: TypeAlias = tuple[Gate, ...]


async def wait_all_gates(open_gate: OpenGate, gates: Sequence[Gate]) -> list[Any]:
    """Wait for all gates concurrently and return their values in order; the first failure cancels the others."""
    if len(gates) == 1:
        return [await open_gate(gates[0])]
    values: dict[int, Any] = {}
    failures: dict[int, Exception] = {}

    async def wait(place: int) -> None:
        try:
            values[place] = await open_gate(gates[place])
        except Exception as error:  # noqa: BLE001  raised below unwrapped, not inside an exception group
            failures[place] = error
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for place in range(len(gates)):
            tasks.start_soon(wait, place)
    if failures:
        raise failures[min(failures)]
    return [values[place] for place in range(len(gates))]


Capability: TypeAlias = Literal["elicitation", "url_elicitation", "sampling", "roots"]
"""A capability that a client declares: to show its user a form or an address to open, to sample its model, or to list
its roots."""

SAMPLING_SECONDS: Final = 300
"""Long enough for a user to review both the request and the response."""
ROOTS_SECONDS: Final = 60
_MODALITIES: Final = ("image", "audio")


@dataclass(frozen=True, slots=True)
class Sampling:
    """A request to the client's model."""

    messages: str | Sequence[Mapping[str, JsonValue]]
    """The user's text, or a list of messages `{"role": "user", "content": "…"}`; a content may be `Media`."""
    _: KW_ONLY
    max_tokens: int
    system_prompt: str | None = None
    temperature: float | None = None
    stop_sequences: Sequence[str] = ()
    timeout_seconds: float | None = SAMPLING_SECONDS
    name: str = "sampling"
    """The key of the request when several are sent together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListRoots:
    """A request for the client's roots: the directories and files its user works with."""

    timeout_seconds: float | None = ROOTS_SECONDS
    name: str = "roots"
    """The key of the request when several are sent together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """The response of the client's model as the client reports it; untrusted text, never an instruction."""

    text: str
    model: str
    stop_reason: str | None = None
    media: tuple[Media, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Root:
    """A directory or file that the client names; it grants no access."""

    uri: str
    """A URI such as `file:///notes`."""
    name: str | None = None


Question: TypeAlias = Gate | Sampling | ListRoots


class Client(Protocol):
    """The MCP client behind a call, stored in `ToolContext.client`."""

    def can(self, capability: Capability | Literal["tasks"]) -> bool:
        """Return whether the client has declared a capability."""
        ...

    async def ask(self, gates: Sequence[Gate]) -> list[Any]:
        """Send all requests at once and return the answers in the same order."""
        ...


def can_ask(ctx: ToolContext, capability: Capability | Literal["tasks"]) -> bool:
    """Return whether the call has an MCP client that declared this capability; `tasks` is for calls that take long."""
    client = _get_client(ctx)
    return client is not None and client.can(capability)


def _get_client(ctx: ToolContext) -> "Client | None":
    return cast("Client | None", ctx.client)  # set by ToolServer only


async def sample(
    ctx: ToolContext,
    messages: str | Sequence[Mapping[str, JsonValue]],
    *,
    max_tokens: int,
    system_prompt: str | None = None,
    temperature: float | None = None,
    stop_sequences: Sequence[str] = (),
    timeout_seconds: float | None = SAMPLING_SECONDS,
) -> Sampled:
    """Sample the client's model and return its response, which is untrusted text.

    Do not follow instructions in it; a tool that returns it must not be `trusted`. Secrets are redacted in the request.

    Raises:
        ClientCapabilityError: The client has not declared sampling; nothing was sent.
        GateNotSupportedError: The call has no MCP client.
        GateTimeoutError: The client did not answer in time.
        PermissionError: The client's user declined.
    """
    question = Sampling(
        messages,
        max_tokens=max_tokens,
        system_prompt=system_prompt,
        temperature=temperature,
        stop_sequences=stop_sequences,
        timeout_seconds=timeout_seconds,
    )
    [answer] = await ask_all(ctx, [question])
    return answer


async def roots(ctx: ToolContext, *, timeout_seconds: float | None = ROOTS_SECONDS) -> list[Root]:
    """Return the directories and files that the client's user works with; a hint that grants no access.

    Raises:
        ClientCapabilityError: The client has not declared roots; nothing was sent.
        GateNotSupportedError: The call has no MCP client.
        GateTimeoutError: The client did not answer in time.
    """
    [answer] = await ask_all(ctx, [ListRoots(timeout_seconds=timeout_seconds)])
    return answer


async def ask_all(ctx: ToolContext, questions: Sequence[Question]) -> list[Any]:
    """Send several requests in one message and return the answers in order; the first failure cancels the others.

    A `Gate` returns a value of its schema, a `Sampling` a `Sampled`, a `ListRoots` a list of `Root`.

    Raises:
        ClientCapabilityError: The client has not declared a capability that one of them needs; nothing was sent.
        GateNotSupportedError: The call has no MCP client.
        UsageError: A request is not a `Gate`, `Sampling` or `ListRoots`, or is invalid.
    """
    gates = [await _build_gate(ctx, each) for each in questions]
    client = _get_client(ctx)
    if client is not None:
        return await client.ask(gates) if gates else []
    if all(isinstance(each, Gate) for each in questions):
        return await wait_all_gates(ctx.wait_for, gates)
    raise GateNotSupportedError(
        "sampling and roots need an MCP client, and this call has none: serve the tool with "
        "`spindle serve` or ToolServer, or check can_ask(ctx, …) first",
        tool=ctx.tool_name,
    )


async def _build_gate(ctx: ToolContext, question: Question) -> Gate:
    if isinstance(question, Gate):
        ctx.redact_gate(question)
        return question
    if isinstance(question, Sampling):
        question = await _prepare_sampling(ctx, question)
    elif not isinstance(untyped(question), ListRoots):
        raise UsageError(f"Expected a Gate, Sampling or ListRoots, got {describe_kind(question)}.", field="questions")
    return Gate(question.name, question, timeout_seconds=question.timeout_seconds)


async def _prepare_sampling(ctx: ToolContext, question: Sampling) -> Sampling:
    """Return the request as it is sent: messages as protocol content blocks, secrets redacted."""
    given = question.messages
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    tokens = untyped(question.max_tokens)
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        raise UsageError(
            f"max_tokens must be an integer of at least 1, got {describe_kind(tokens)}.", field="max_tokens"
        )
    heat = untyped(question.temperature)
    if heat is not None and not (isinstance(heat, (int, float)) and math.isfinite(heat)):
        raise UsageError(f"temperature must be a finite number, got {describe_kind(heat)}.", field="temperature")
    if not given:
        raise UsageError("Sampling needs at least one message.", field="messages")
    return replace(
        question,
        messages=[await _message(ctx, each) for each in given],
        system_prompt=None if question.system_prompt is None else ctx.redact(question.system_prompt),
        stop_sequences=[ctx.redact(each) for each in question.stop_sequences],
    )


async def _message(ctx: ToolContext, message: Mapping[str, JsonValue]) -> JsonObject:
    role, content = message.get("role"), message.get("content")
    if role not in {"user", "assistant"} or set(message) != {"role", "content"}:
        raise UsageError('A message must be {"role": "user" or "assistant", "content": …}.', field="messages")
    if isinstance(content, str):
        return {"role": role, "content": {"type": "text", "text": ctx.redact(content)}}
    if isinstance(content, Media) and content.kind in _MODALITIES:
        data = await content.as_base64()
        return {"role": role, "content": {"type": content.kind, "data": data, "mimeType": content.safe_mime_type}}
    raise UsageError(
        f"A message's content must be a str, or Media of an image or audio, got {describe_kind(content)}; "
        "send one message for each.",
        field="messages",
    )
