"""What a provider's API gives, and what it must offer to be asked by `Asking`."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from spindle.bridges.definitions import Definitions
from spindle.bridges.transcript import Step
from spindle.calls import Call
from spindle.errors import UnknownToolError
from spindle.tools.filters import ToolFilter
from spindle.turns.context import DispatchContext


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a provider gave no whole answer."""

    says: str
    status: int | None = None
    """`None`: the connection failed, or broke off."""
    retry_after: str | None = None
    """The header as it came: seconds, or a date."""


@dataclass(frozen=True, slots=True)
class ResponseDelta:
    """A part of an answer as it streams in."""

    kind: Literal["text", "thought", "call"]
    text: str
    id: str = ""
    """Of the call, where it is part of one."""
    tool: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelResponse:
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


class ResponseAssembler(Protocol):
    """Puts a streamed answer together; the `Stream` of each dialect is one."""

    def feed(self, event: Any) -> Sequence[ResponseDelta]:
        """Take one event of the stream, and give what is new in it."""
        ...

    def feed_whole(self, response: Any) -> object:
        """Take an answer that was not streamed."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether the provider said that this is the end."""
        ...

    def answered(self) -> ModelResponse:
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

    def reader(self, definitions: Definitions, taken: Collection[str]) -> ResponseAssembler:
        """Give what puts these events together; calls get other ids than those `taken`."""
        ...

    async def whole(self, request: dict[str, Any], reader: ResponseAssembler) -> ModelResponse:
        """Send the request, wait for the answer as a whole, and have it read by a fresh reader of this provider."""
        ...

    def failure(self, error: Exception) -> Failure | None:
        """Say what an exception of the SDK means; `None` for one that is not the provider's."""
        ...

    def secrets(self) -> Sequence[str]:
        """Give what must never be told: the keys that are sent with a request, and may come back in an error."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """What a model is told: to choose for itself, to call nothing, something, or one tool."""

    mode: Literal["auto", "none", "required", "tool"]
    wire_name: str = ""
    """Of the one tool."""


def chosen(wish: str | Mapping[str, Any] | None, definitions: Definitions, *, trip: int) -> Choice | None:
    """Read what the caller wishes; a call can be forced on the first trip only, or the turn could never end.

    Raises:
        UnknownToolError: It is a name, and none of the tools shown has it.
    """
    if wish is None or not isinstance(wish, str) or not len(definitions):
        return None
    if wish in {"auto", "none"}:
        return Choice("auto" if wish == "auto" else "none")
    if trip > 0:
        return Choice("auto")
    if wish in {"required", "any"}:
        return Choice("required")
    if wish not in definitions.names.wire:
        raise UnknownToolError(
            f"tool_choice is {wish!r}, and no tool shown to the model has that name; give the name of one of them, "
            '"auto", "none" or "required"',
            tool=wish,
            field="tool_choice",
        )
    return Choice("tool", definitions.names.to_wire(wish))
