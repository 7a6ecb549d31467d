"""The port between `ModelCallback` and a provider's API, and the types of a model's response."""

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
class ProviderFailure:
    """Why a provider returned no complete response."""

    message: str
    status: int | None = None
    """`None`: the connection failed or was interrupted."""
    retry_after: str | None = None
    """The header as received: seconds or a date."""


@dataclass(frozen=True, slots=True)
class ResponseDelta:
    """A part of a streamed response."""

    kind: Literal["text", "thought", "call"]
    text: str
    id: str = ""
    """The id of the call, if this is part of one."""
    tool: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelResponse:
    """One complete response of a model."""

    text: str | None
    calls: Sequence[Call] = ()
    usage: Mapping[str, Any] | None = None
    """`input_tokens`, `output_tokens`, and any other counts of the provider."""
    finish_reason: str | None = None
    raw: Any = None
    """The response in the form the provider requires back as the assistant's message."""
    is_truncated: bool = False
    """Whether the response was cut off before the model had finished."""


class ResponseAssembler(Protocol):
    """Assembles a streamed response; implemented by the `Stream` of each dialect."""

    def feed(self, event: Any) -> Sequence[ResponseDelta]:
        """Process one event of the stream and return its deltas."""
        ...

    def feed_response(self, response: Any) -> object:
        """Process a response that was not streamed."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether the provider has signalled the end of the response."""
        ...

    def build_response(self) -> ModelResponse:
        """Return the complete response."""
        ...


class Provider(Protocol):
    """One provider's API, behind its official SDK."""

    def definitions(self, ctx: DispatchContext, filter: ToolFilter | None) -> Definitions:
        """Return the tools in the provider's dialect."""
        ...

    async def build_request(
        self, ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions
    ) -> dict[str, Any]:
        """Build the request."""
        ...

    def stream(self, request: dict[str, Any]) -> AbstractAsyncContextManager[AsyncIterator[Any]]:
        """Send the request and yield the events of the response."""
        ...

    def create_assembler(self, definitions: Definitions, taken: Collection[str]) -> ResponseAssembler:
        """Return an assembler for these events; calls get ids that are not in `taken`."""
        ...

    async def complete(self, request: dict[str, Any], assembler: ResponseAssembler) -> ModelResponse:
        """Send the request without streaming, and read the response with a fresh assembler of this provider."""
        ...

    def translate_error(self, error: Exception) -> ProviderFailure | None:
        """Return the failure an SDK exception stands for; `None` if it is not the provider's."""
        ...

    def secrets(self) -> Sequence[str]:
        """Return the keys sent with a request, which must be masked if they come back in an error."""
        ...


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The tool choice of a request: automatic, no call, any call, or one given tool."""

    mode: Literal["auto", "none", "required", "tool"]
    wire_name: str = ""
    """The wire name of the given tool, for the mode "tool"."""


def resolve_tool_choice(
    requested: str | Mapping[str, Any] | None, definitions: Definitions, *, iteration: int
) -> ToolChoice | None:
    """Resolve the caller's `tool_choice`; a call is forced on the first iteration only, or the turn would never end.

    Raises:
        UnknownToolError: It is a name that none of the shown tools has.
    """
    if requested is None or not isinstance(requested, str) or not len(definitions):
        return None
    if requested in {"auto", "none"}:
        return ToolChoice("auto" if requested == "auto" else "none")
    if iteration > 0:
        return ToolChoice("auto")
    if requested in {"required", "any"}:
        return ToolChoice("required")
    if requested not in definitions.names.wire:
        raise UnknownToolError(
            f'Expected tool_choice to be "auto", "none", "required" or the name of a tool shown to the model, '
            f"got {requested!r}.",
            tool=requested,
            field="tool_choice",
        )
    return ToolChoice("tool", definitions.names.to_wire(requested))
