"""The requests for prompts and resources to a connected server: bounded listings, reads, completion, subscriptions."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import mcp_types as types
from mcp.client import ClientSession
from mcp.client.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ServerEvent, listen
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from spindle.mcp.client.upstream_questions import Answered, Question

MAX_PAGES = 100
MAX_ENTRIES = 2_000
"""Entries of one kind that are used of a server's listing."""

MAX_ROUNDS = 10
"""How often one request may ask for input before it fails."""

T = TypeVar("T")
Entry: TypeAlias = types.Prompt | types.Resource | types.ResourceTemplate
ReadAnswer: TypeAlias = types.ReadResourceResult | types.InputRequiredResult
GetAnswer: TypeAlias = types.GetPromptResult | types.InputRequiredResult
_READ: TypeAdapter[ReadAnswer] = TypeAdapter(ReadAnswer)
_GET: TypeAdapter[GetAnswer] = TypeAdapter(GetAnswer)


Ask: TypeAlias = Callable[[Sequence[Question]], Awaitable[list[Answered]]]
AnswerQuestions: TypeAlias = Callable[[types.InputRequiredResult, Ask], Awaitable[types.InputResponses | None]]
"""Answers the questions of a server, with a function that asks the user."""


@dataclass(frozen=True, slots=True)
class ListingPage:
    """One page of a listing."""

    entries: Sequence[Entry]
    next_cursor: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class InputAnswers:
    """The answers to the questions of an earlier round, and the state to continue with."""

    responses: types.InputResponses | None = None
    state: str | None = None


class FeatureRequests:
    """The requests for prompts and resources over one session."""

    def __init__(self, session: ClientSession, answer: AnswerQuestions) -> None:
        self._session = session
        self._answer = answer

    @property
    def is_modern(self) -> bool:
        """Whether the protocol version is 2026-07-28 or later."""
        return self._session.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """The capabilities that the server has declared."""
        return self._session.server_capabilities or types.ServerCapabilities()

    def read_listing(
        self, kind: Literal["prompts", "resources", "templates"]
    ) -> Awaitable[tuple[list[Entry], list[str]]]:
        """Return the entries of one kind, and the problems of the listing."""
        match kind:
            case "prompts":
                return self.list_prompts()
            case "resources":
                return self.list_resources()
            case "templates":
                return self.list_templates()

    async def list_prompts(self) -> tuple[list[Entry], list[str]]:
        """Return the server's prompts, and the problems of the listing."""

        async def turn(params: types.PaginatedRequestParams) -> ListingPage:
            page = await self._session.list_prompts(params=params)
            return ListingPage(page.prompts, page.next_cursor)

        return await read_pages(turn, "prompts")

    async def list_resources(self) -> tuple[list[Entry], list[str]]:
        """Return the server's resources, and the problems of the listing."""

        async def turn(params: types.PaginatedRequestParams) -> ListingPage:
            page = await self._session.list_resources(params=params)
            return ListingPage(page.resources, page.next_cursor)

        return await read_pages(turn, "resources")

    async def list_templates(self) -> tuple[list[Entry], list[str]]:
        """Return the server's resource templates, and the problems of the listing."""

        async def turn(params: types.PaginatedRequestParams) -> ListingPage:
            page = await self._session.list_resource_templates(params=params)
            return ListingPage(page.resource_templates, page.next_cursor)

        return await read_pages(turn, "resource templates")

    async def answer_all(self, send: Callable[[InputAnswers], Awaitable[T | types.InputRequiredResult]], ask: Ask) -> T:
        """Send a request and answer the questions of its server until it returns a result.

        Raises:
            MCPError: It asks too often.
        """
        given = InputAnswers()
        for _ in range(MAX_ROUNDS + 2):
            answer = await send(given)
            if not isinstance(answer, types.InputRequiredResult):
                return answer
            given = InputAnswers(responses=await self._answer(answer, ask), state=answer.request_state)
        raise MCPError(types.INVALID_REQUEST, f"it asked for input more than {MAX_ROUNDS} times")

    async def read(self, uri: str, given: InputAnswers, *, seconds: float) -> ReadAnswer:
        """Read a resource by the server's own URI."""
        params = types.ReadResourceRequestParams(uri=uri, input_responses=given.responses, request_state=given.state)
        return await self._session.send_request(types.ReadResourceRequest(params=params), _READ, seconds)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None, given: InputAnswers, *, seconds: float
    ) -> GetAnswer:
        """Get a prompt by the server's own name."""
        params = types.GetPromptRequestParams(
            name=name,
            arguments=None if arguments is None else dict(arguments),
            input_responses=given.responses,
            request_state=given.state,
        )
        return await self._session.send_request(types.GetPromptRequest(params=params), _GET, seconds)

    async def complete(self, params: types.CompleteRequestParams, *, seconds: float) -> types.CompleteResult:
        """Complete an argument of a prompt or template, by the server's own names."""
        return await self._session.send_request(types.CompleteRequest(params=params), types.CompleteResult, seconds)

    async def subscribe(self, uri: str) -> None:
        """Subscribe to a resource, on the older protocol."""
        request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
        await self._session.send_request(request, types.EmptyResult)

    async def unsubscribe(self, uri: str) -> None:
        """End a subscription to a resource, on the older protocol."""
        request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
        await self._session.send_request(request, types.EmptyResult)

    @asynccontextmanager
    async def listen(self, uris: Sequence[str]) -> AsyncGenerator[Any]:
        """Open a stream of changes of the lists and of resources, on the newer protocol."""
        declared = self.capabilities
        async with listen(
            self._session,
            prompts_list_changed=declared.prompts is not None and bool(declared.prompts.list_changed),
            resources_list_changed=declared.resources is not None and bool(declared.resources.list_changed),
            resource_subscriptions=uris,
        ) as events:
            yield events


Turn: TypeAlias = Callable[[types.PaginatedRequestParams], Awaitable[ListingPage]]


async def read_pages(turn: Turn, what: str) -> tuple[list[Entry], list[str]]:
    """Read a listing page by page; return what can be used of it, and its problems."""
    found: list[Entry] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await turn(types.PaginatedRequestParams(cursor=cursor))
        found += page.entries
        if len(found) > MAX_ENTRIES:
            return found[:MAX_ENTRIES], [f"it lists more than {MAX_ENTRIES} {what}; the rest is left out"]
        cursor = page.next_cursor
        if not cursor:
            return found, []
        if cursor in seen:
            return found, [f"its listing of {what} repeats a page; those listed before it are used"]
        seen.add(cursor)
    return found, [f"its listing of {what} has more than {MAX_PAGES} pages; the rest is left out"]


def get_event(message: object) -> ServerEvent | None:
    """Return the change that a notification of the older protocol reports, if it is about prompts or resources."""
    match message:
        case types.PromptListChangedNotification():
            return PromptsListChanged()
        case types.ResourceListChangedNotification():
            return ResourcesListChanged()
        case types.ResourceUpdatedNotification(params=params):
            return ResourceUpdated(params.uri)
        case _:
            return None
