"""The port between `ModelCallback` and a provider's API, what all providers share, and the types of a response."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Protocol

from spindle.bridges.definitions import Definitions, Wrap, build
from spindle.bridges.dialects import Dialect
from spindle.bridges.rendering import MediaSupport, RenderedResult, render_result
from spindle.bridges.transcript import Step
from spindle.bridges.wire import replace_lone_surrogates
from spindle.calls import Call, CallOutcome
from spindle.errors import UnknownToolError
from spindle.events import Events
from spindle.json_types import JsonObject, JsonValue
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from spindle.turns.context import DispatchContext


@dataclass(frozen=True, slots=True)
class ProviderFailure:
    """Why a provider returned no complete response."""

    message: str
    status: int | None = None
    """`None`: the connection failed or was interrupted."""
    retry_after: str | None = None
    """The header as received: seconds or a date."""
    body: object = field(default=None, repr=False)
    """The error as the provider sent it, parsed; `None` if it sent none."""


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
    usage: Mapping[str, int] | None = None
    """`input_tokens`, `output_tokens`, and any other counts of the provider."""
    finish_reason: str | None = None
    raw: JsonValue = None
    """The response in the form the provider requires back as the assistant's message."""
    is_truncated: bool = False
    """Whether the response was cut off before the model had finished."""


class ResponseAssembler(Protocol):
    """Assembles a streamed response; implemented by the `Stream` of each dialect."""

    def feed(self, event: object) -> Sequence[ResponseDelta]:
        """Process one event of the stream and return its deltas."""
        ...

    def feed_response(self, response: object) -> object:
        """Process a response that was not streamed."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether the provider has signalled the end of the response."""
        ...

    def calls(self) -> Sequence[Call]:
        """Return the calls so far; a call that was cut off gets arguments that executors reject."""
        ...

    def build_response(self) -> ModelResponse:
        """Return the complete response."""
        ...


class Provider(Protocol):
    """One provider's API, behind its official SDK."""

    def definitions(self, ctx: DispatchContext, filter: ToolFilter | None) -> Definitions:
        """Return the tools in the provider's dialect."""
        ...

    async def build_request(self, ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions) -> JsonObject:
        """Build the request."""
        ...

    def stream(self, request: JsonObject) -> AbstractAsyncContextManager[AsyncIterator[object]]:
        """Send the request and yield the events of the response."""
        ...

    def create_assembler(self, definitions: Definitions, taken: Collection[str]) -> ResponseAssembler:
        """Return an assembler for these events; calls get ids that are not in `taken`."""
        ...

    async def complete(self, request: JsonObject, assembler: ResponseAssembler) -> ModelResponse:
        """Send the request without streaming, and read the response with a fresh assembler of this provider."""
        ...

    def translate_error(self, error: Exception) -> ProviderFailure | None:
        """Return the failure an SDK exception stands for; `None` if it is not the provider's."""
        ...

    def secrets(self) -> Sequence[str]:
        """Return the keys sent with a request, which must be masked if they come back in an error."""
        ...


class CreateAssembler(Protocol):
    """Creates the assembler of one response."""

    def __call__(self, definitions: Definitions | None = None, *, taken: Collection[str] = ()) -> ResponseAssembler:
        """Return an assembler whose calls get ids that are not in `taken`."""
        ...


@dataclass(frozen=True, kw_only=True)
class ModelApi:
    """What one model API does its own way, and the functions that every provider's package offers because of it."""

    dialect: Dialect
    wrap: Wrap
    create_assembler: CreateAssembler
    format_results: Callable[[Sequence[RenderedResult], Definitions | None], list[JsonObject]]
    """Writes rendered results in the API's form."""
    media_types: frozenset[str]
    """The types of media the API can carry."""
    default_media: MediaSupport
    """The media its models accept, unless the caller says otherwise."""
    max_media_bytes: int | None = None

    def definitions(
        self,
        tools: ToolRegistry | Iterable[Tool],
        *,
        filter: ToolFilter | None = None,
        strict: bool = False,
        events: Events | None = None,
    ) -> Definitions:
        """Return the definitions of tools for this API; `strict` has no effect where the API has no strict form.

        Raises:
            CannotLowerError: A tool's schema cannot be expressed in this dialect.
            TooManyToolsError: There are more tools than the API accepts.
        """
        return build(self.dialect, tools, self.wrap, filter=filter, strict=strict, events=events)

    def calls(self, response: object, definitions: Definitions | None = None) -> list[Call]:
        """Return the calls of a complete response, given as an SDK object or plain data."""
        assembler = self.create_assembler(definitions)
        assembler.feed_response(response)
        return list(assembler.calls())

    async def results(
        self,
        outcomes: Sequence[CallOutcome],
        *,
        definitions: Definitions | None = None,
        media: MediaSupport | None = None,
    ) -> list[JsonObject]:
        """Return outcomes in the form in which the API expects them after the response with the calls.

        Raises:
            UnsupportedMediaError: The model does not accept the media, and `media.unsupported` is "throw".
        """
        media_support = self.restrict_media(media)
        rendered = [await render_result(outcome, media_support) for outcome in outcomes]
        return replace_lone_surrogates(self.format_results(rendered, definitions))

    def restrict_media(self, media: MediaSupport | None) -> MediaSupport:
        """Restrict the media a model accepts to those this API can carry."""
        if media is None:
            return self.default_media
        most = media.max_bytes if self.max_media_bytes is None else min(media.max_bytes, self.max_media_bytes)
        return replace(media, mime_types=media.mime_types & self.media_types, max_bytes=most)


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The tool choice of a request: automatic, no call, any call, or one given tool."""

    mode: Literal["auto", "none", "required", "tool"]
    wire_name: str = ""
    """The wire name of the given tool, for the mode "tool"."""


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """The options of a request that every API has."""

    model: str
    strict: bool = False
    tool_choice: str | Mapping[str, JsonValue] | None = None
    extra: Mapping[str, JsonValue] | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class ApiProvider(Provider):
    """The part of a provider that is the same for every API."""

    api: ClassVar[ModelApi]
    options: RequestOptions

    def definitions(self, ctx: DispatchContext, filter: ToolFilter | None) -> Definitions:
        """Return the tools in the provider's dialect."""
        return self.api.definitions(ctx.tools, filter=filter, strict=self.options.strict, events=ctx.events)

    def create_assembler(self, definitions: Definitions, taken: Collection[str]) -> ResponseAssembler:
        """Return an assembler for the events of this API."""
        return self.api.create_assembler(definitions, taken=taken)

    def build_tool_choice(self, ctx: DispatchContext, definitions: Definitions) -> JsonValue | None:
        """Return the tool choice for this iteration in the API's form: the caller's own object is sent as it is.

        Raises:
            UnknownToolError: It names a tool that is not shown to the model.
        """
        if isinstance(self.options.tool_choice, Mapping):
            return dict(self.options.tool_choice)
        choice = resolve_tool_choice(self.options.tool_choice, definitions, iteration=ctx.iteration)
        return None if choice is None else self.format_tool_choice(choice)

    @abstractmethod
    def format_tool_choice(self, choice: ToolChoice) -> JsonValue:
        """Write a tool choice in the API's form."""


def resolve_tool_choice(
    requested: str | Mapping[str, JsonValue] | None, definitions: Definitions, *, iteration: int
) -> ToolChoice | None:
    """Resolve the caller's `tool_choice`; a call is forced on the first iteration only, or the turn would never end.

    Raises:
        UnknownToolError: It is a name that none of the shown tools has.
    """
    if not isinstance(requested, str) or not len(definitions):
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
