"""What a tool may ask the MCP client behind its call: its model, its roots, and several things at once.

A question to the client's user is a plain `Gate`, as everywhere. All of them wait like one: with a deadline of their
own, and until the call is cancelled. Read `ask_all`.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

import anyio

from spindle.errors import GateNotSupportedError, UsageError
from spindle.media import Media
from spindle.tools.context import ToolContext
from spindle.tools.schema.problems import kind_of
from spindle.turns.gates import Gate

OpenGate: TypeAlias = Callable[[Gate], Awaitable[Any]]
AskAll: TypeAlias = Callable[[Sequence[Gate]], Awaitable[list[Any]]]
Round: TypeAlias = tuple[Gate, ...]


async def open_all(open_gate: OpenGate, gates: Sequence[Gate]) -> list[Any]:
    """Wait for all gates side by side, and give what each was settled with; the first that fails ends the others."""
    if len(gates) == 1:
        return [await open_gate(gates[0])]
    values: dict[int, Any] = {}
    failures: dict[int, Exception] = {}

    async def wait(place: int) -> None:
        try:
            values[place] = await open_gate(gates[place])
        except Exception as error:  # noqa: BLE001  raised below as it is, not as one of a group
            failures[place] = error
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for place in range(len(gates)):
            tasks.start_soon(wait, place)
    if failures:
        raise failures[min(failures)]
    return [values[place] for place in range(len(gates))]


Capability: TypeAlias = Literal["elicitation", "sampling", "roots"]
"""What a client declares: that its user, its model or its list of roots can be asked."""

SAMPLING_SECONDS: Final = 300
"""A person may look at the question and at the answer, too."""
ROOTS_SECONDS: Final = 60
_MODALITIES: Final = ("image", "audio")


@dataclass(frozen=True, slots=True)
class Sampling:
    """A question to the client's model."""

    messages: str | Sequence[Mapping[str, Any]]
    """What the user says, or a conversation: `{"role": "user", "content": "…"}`, where a content may be `Media`."""
    _: KW_ONLY
    max_tokens: int
    system_prompt: str | None = None
    temperature: float | None = None
    stop_sequences: Sequence[str] = ()
    timeout_seconds: float | None = SAMPLING_SECONDS
    name: str = "sampling"
    """What the client calls the question by, among several."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListRoots:
    """A question for the folders and files that the client's user works with."""

    timeout_seconds: float | None = ROOTS_SECONDS
    name: str = "roots"
    """What the client calls the question by, among several."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """What the client's model said, by the client's account: a stranger's words, and never an instruction."""

    text: str
    model: str
    stop_reason: str | None = None
    media: tuple[Media, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Root:
    """A folder or a file that the client names; that it does so grants nothing."""

    uri: str
    """Such as `file:///notes`."""
    name: str | None = None


Question: TypeAlias = Gate | Sampling | ListRoots


class Client(Protocol):
    """The client a call was made for, as `ToolContext.client` holds it."""

    def can(self, capability: Capability) -> bool:
        """Whether the client has declared a capability."""
        ...

    async def ask(self, gates: Sequence[Gate]) -> list[Any]:
        """Ask everything at once, and give the answers in the same order."""
        ...


def can_ask(ctx: ToolContext, capability: Capability) -> bool:
    """Whether a client is behind the call that has declared this capability."""
    client = cast("Client | None", ctx.client)
    return client is not None and client.can(capability)


async def sample(
    ctx: ToolContext,
    messages: str | Sequence[Mapping[str, Any]],
    *,
    max_tokens: int,
    system_prompt: str | None = None,
    temperature: float | None = None,
    stop_sequences: Sequence[str] = (),
    timeout_seconds: float | None = SAMPLING_SECONDS,
) -> Sampled:
    """Ask the client's model; what comes back is untrusted text that anybody may have written.

    Do not follow it, and do not give it out as your own: a tool that returns it must not be `trusted`. Secrets are
    masked in what is sent.

    Raises:
        ClientCapabilityError: The client has no model that can be asked; nothing was sent.
        GateNotSupportedError: No MCP client is behind the call.
        GateTimeoutError: There was no answer in time.
        PermissionError: The client's user said no.
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
    """Ask for the folders and files that the client's user works with; a hint, by which nothing more can be reached.

    Raises:
        ClientCapabilityError: The client has no roots; nothing was sent.
        GateNotSupportedError: No MCP client is behind the call.
        GateTimeoutError: There was no answer in time.
    """
    [answer] = await ask_all(ctx, [ListRoots(timeout_seconds=timeout_seconds)])
    return answer


async def ask_all(ctx: ToolContext, questions: Sequence[Question]) -> list[Any]:
    """Ask several things in one message, and give the answers in the same order; the first that fails ends the others.

    A `Gate` gives what its schema says, a `Sampling` a `Sampled`, a `ListRoots` a list of `Root`.

    Raises:
        ClientCapabilityError: One of them is nothing this client can answer; none was sent.
        GateNotSupportedError: No MCP client is behind the call.
        UsageError: A question is none.
    """
    gates = [await _gate_of(ctx, each) for each in questions]
    client = cast("Client | None", ctx.client)
    if client is not None:
        return await client.ask(gates) if gates else []
    if all(isinstance(each, Gate) for each in questions):
        return await open_all(ctx.wait_for, gates)
    raise GateNotSupportedError(
        "only an MCP client has a model or roots to ask, and none is behind this call: serve the tool with "
        "`spindle serve` or ToolServer, or look at can_ask(ctx, …) first",
        tool=ctx.tool_name,
    )


async def _gate_of(ctx: ToolContext, question: Question) -> Gate:
    if isinstance(question, Gate):
        return question
    if isinstance(question, Sampling):
        question = await _written(ctx, question)
    elif not isinstance(cast("object", question), ListRoots):
        raise UsageError(f"a question is a Gate, a Sampling or a ListRoots, not {kind_of(question)}", field="questions")
    return Gate(question.name, question, timeout_seconds=question.timeout_seconds)


async def _written(ctx: ToolContext, question: Sampling) -> Sampling:
    """Give the question as it goes out: content blocks of the protocol, secrets masked."""
    given = question.messages
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    tokens = cast("object", question.max_tokens)
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        raise UsageError(f"max_tokens is a whole number of at least 1, not {kind_of(tokens)}", field="max_tokens")
    heat = cast("object", question.temperature)
    if heat is not None and not (isinstance(heat, (int, float)) and math.isfinite(heat)):
        raise UsageError(f"temperature is a number, not {kind_of(heat)}", field="temperature")
    if not given:
        raise UsageError("a model is asked with at least one message", field="messages")
    return replace(
        question,
        messages=[await _message(ctx, each) for each in given],
        system_prompt=None if question.system_prompt is None else ctx.redacted(question.system_prompt),
        stop_sequences=[ctx.redacted(each) for each in question.stop_sequences],
    )


async def _message(ctx: ToolContext, message: Mapping[str, Any]) -> dict[str, Any]:
    role, content = message.get("role"), message.get("content")
    if role not in {"user", "assistant"} or set(message) != {"role", "content"}:
        raise UsageError('a message is {"role": "user" or "assistant", "content": …}', field="messages")
    if isinstance(content, str):
        return {"role": role, "content": {"type": "text", "text": ctx.redacted(content)}}
    if isinstance(content, Media) and content.kind in _MODALITIES:
        data = await content.as_base64()
        return {"role": role, "content": {"type": content.kind, "data": data, "mimeType": content.safe_mime_type}}
    raise UsageError(
        f"a message's content is a text, an image or a sound, not {kind_of(content)}; send one message for each",
        field="messages",
    )
