"""Upstream servers in this process: the SDK's own server behind the real client, without a process or a socket."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ServerEvent
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage

from spindle import Budget, Executor, Spool, ToolFilter
from spindle.mcp import Clock, McpServers, ServerSpec, ToolServer
from spindle.mcp.client.link import ErrorMarker
from spindle.mcp.client.session_factory import SessionFactory
from spindle.mcp.server.serve import propagate_changes
from tests.mcp.upstreams import IN_TIME, EventLog

OLDER, NEWER = "2025-11-25", "2026-07-28"
MODES = {OLDER: "legacy", NEWER: NEWER}
"""The mode in which a client of the SDK speaks a revision."""


@dataclass
class Answer:
    """What a server does instead of giving a text."""

    give: Callable[[Any], Awaitable[Any]]


@dataclass
class Upstream:
    """A server with prompts and resources that a test may change."""

    prompts: dict[str, Any] = field(default_factory=dict[str, Any])
    """Texts, or results, by name."""
    resources: dict[str, Any] = field(default_factory=dict[str, Any])
    """Texts, blobs, or contents, by URI."""
    templates: list[str] = field(default_factory=list[str])
    mime_types: dict[str, str] = field(default_factory=dict[str, str])
    description: str = "Described."
    meta: dict[str, Any] | None = None
    revision: str = OLDER
    reports_changes: bool = True
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """What was read, got or completed."""
    subscribed: set[str] = field(default_factory=set[str])
    page_size: int = 1_000
    starts: int = 0
    link: Any = None
    """The link of the last start."""
    sdk: Server[Any] = field(init=False)

    def __post_init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._sessions: list[Any] = []
        self.sdk = Server(
            "upstream",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_completion=self._complete,
            on_subscriptions_listen=self._listen,
        )
        self._listening = ListenHandler(self._bus)

    async def _list_tools(self, ctx: Any, _params: Any) -> types.ListToolsResult:
        self._sessions.append(ctx.session)
        schema: dict[str, Any] = {"type": "object"}
        return types.ListToolsResult(tools=[types.Tool(name="link", input_schema=schema)])

    async def _call_tool(self, _ctx: Any, _params: Any) -> types.CallToolResult:
        link = types.ResourceLink(type="resource_link", uri=next(iter(self.resources)), name="it")
        return types.CallToolResult(content=[link])

    def _page(self, params: Any, entries: list[Any]) -> tuple[list[Any], str | None]:
        start = int((params and params.cursor) or 0)
        end = start + self.page_size
        return entries[start:end], str(end) if end < len(entries) else None

    async def _list_prompts(self, _ctx: Any, params: Any) -> types.ListPromptsResult:
        argument = types.PromptArgument(name="who", description=self.description)
        entries = [
            types.Prompt(name=name, description=self.description, arguments=[argument], _meta=self.meta)
            for name in self.prompts
        ]
        page, cursor = self._page(params, entries)
        return types.ListPromptsResult(prompts=page, next_cursor=cursor)

    async def _get_prompt(self, _ctx: Any, params: Any) -> Any:
        self.asked.append(("prompt", params.name))
        text = self.prompts.get(params.name)
        if isinstance(text, Answer):
            return await text.give(params)
        if not isinstance(text, str):
            raise types_error(types.INVALID_PARAMS, "no such prompt")
        given: dict[str, str] = params.arguments or {}
        said = text.format(**given)
        block = types.TextContent(type="text", text=said)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=block)])

    async def _list_resources(self, _ctx: Any, params: Any) -> types.ListResourcesResult:
        entries = [
            types.Resource(uri=uri, name=uri, description=self.description, _meta=self.meta) for uri in self.resources
        ]
        page, cursor = self._page(params, entries)
        return types.ListResourcesResult(resources=page, next_cursor=cursor)

    async def _list_templates(self, _ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
        entries = [types.ResourceTemplate(uri_template=each, name=each) for each in self.templates]
        page, cursor = self._page(params, entries)
        return types.ListResourceTemplatesResult(resource_templates=page, next_cursor=cursor)

    async def _read(self, _ctx: Any, params: Any) -> Any:
        uri = str(params.uri)
        self.asked.append(("read", uri))
        content = self.resources.get(uri, f"generated {uri}" if self.templates else None)
        if isinstance(content, Answer):
            return await content.give(params)
        mime_type = self.mime_types.get(uri, "text/plain")
        if isinstance(content, str):
            contents: Any = types.TextResourceContents(uri=uri, mime_type=mime_type, text=content, _meta=self.meta)
        elif isinstance(content, bytes):
            contents = types.BlobResourceContents(uri=uri, mime_type=mime_type, blob=content.decode())
        else:
            raise types_error(types.INVALID_PARAMS if self.revision == NEWER else -32002, "Resource not found")
        return types.ReadResourceResult(contents=[contents])

    async def _complete(self, _ctx: Any, params: Any) -> types.CompleteResult:
        self.asked.append(("complete", getattr(params.ref, "name", None) or params.ref.uri))
        values = [f"{params.argument.value}{letter}" for letter in "ab"]
        return types.CompleteResult(completion=types.Completion(values=values, total=2, has_more=False))

    async def _subscribe(self, _ctx: Any, params: Any) -> types.EmptyResult:
        self.subscribed.add(str(params.uri))
        return types.EmptyResult()

    async def _unsubscribe(self, _ctx: Any, params: Any) -> types.EmptyResult:
        self.subscribed.discard(str(params.uri))
        return types.EmptyResult()

    async def _listen(self, ctx: Any, params: Any) -> Any:
        wanted = set(params.notifications.resource_subscriptions or ())
        self.subscribed |= wanted
        return await self._listening(ctx, params)

    async def report(self, event: ServerEvent) -> None:
        """Report a change as the revision does."""
        await self._bus.publish(event)
        if self.revision == NEWER:
            return
        session = self._sessions[-1]
        match type(event).__name__:
            case "PromptsListChanged":
                await session.send_prompt_list_changed()
            case "ResourcesListChanged":
                await session.send_resource_list_changed()
            case _:
                await session.send_resource_updated(event.uri)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]

    @property
    def options(self) -> Any:
        changes = NotificationOptions(self.reports_changes, self.reports_changes, self.reports_changes)
        return self.sdk.create_initialization_options(changes)


def types_error(code: int, message: str) -> Exception:
    from mcp.shared.exceptions import MCPError

    return MCPError(code, message)


class MemoryLink:
    """A link to a server in this process."""

    is_older = False

    def __init__(self, upstream: Upstream) -> None:
        self.error_marker, self.broken, self.is_older = ErrorMarker(), anyio.Event(), False
        self._upstream = upstream

    def describe_exit(self) -> str:
        return ""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any]:
        upstream = self._upstream
        upstream.starts += 1
        upstream.link = self
        async with (
            create_client_server_memory_streams() as (mine, (incoming, outgoing)),
            anyio.create_task_group() as group,
        ):
            sending, filtered = anyio.create_memory_object_stream[Any](100)

            async def answer_probes() -> None:
                """Answer like a server that does not know the newer revision."""
                async with sending:
                    async for message in incoming:
                        request: Any = message.message if isinstance(message, SessionMessage) else None
                        if upstream.revision == OLDER and getattr(request, "method", "") == "server/discover":
                            error = types.ErrorData(code=types.METHOD_NOT_FOUND, message="what?")
                            reply = types.JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
                            await outgoing.send(SessionMessage(reply))
                        else:
                            await sending.send(message)

            group.start_soon(answer_probes)
            group.start_soon(upstream.sdk.run, filtered, outgoing, upstream.options)
            yield mine
            group.cancel_scope.cancel()


class StepClock:
    """A clock that a test moves; its sleepers sleep in real time."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


@dataclass
class MemoryGateway:
    """A gateway in front of servers in this process."""

    servers: McpServers
    server: ToolServer
    log: EventLog

    @asynccontextmanager
    async def client(self, revision: str = NEWER, **options: Any) -> AsyncGenerator[Client]:
        """Connect one more client."""
        async with Client(self.server.sdk, mode=MODES[revision], **options) as connected:
            yield connected


@asynccontextmanager
async def memory_servers(
    monkeypatch: pytest.MonkeyPatch, upstreams: Mapping[str, Upstream], *, clock: Clock | None = None, **specs: Any
) -> AsyncGenerator[tuple[McpServers, EventLog]]:
    """Connect the client to servers in this process; `specs` has further settings by the name of a server."""

    async def link(self: SessionFactory) -> MemoryLink:
        return MemoryLink(upstreams[self._spec.name])  # pyright: ignore[reportPrivateUsage]

    monkeypatch.setattr(SessionFactory, "_link", link)
    log = EventLog()
    made = [ServerSpec(name=name, command="memory", **specs.get(name, {})) for name in upstreams]
    with anyio.fail_after(IN_TIME):
        secrets = "value-of-{}".format
        async with McpServers(made, events=log.events, secrets=secrets, clock=clock) as servers:
            await servers.ready()
            yield servers, log


@asynccontextmanager
async def memory_gateway(
    monkeypatch: pytest.MonkeyPatch,
    upstreams: Mapping[str, Upstream],
    *,
    filter: ToolFilter | None = None,
    budget: Budget | None = None,
    specs: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
    **options: Any,
) -> AsyncGenerator[MemoryGateway]:
    """Serve servers in this process."""
    async with memory_servers(monkeypatch, upstreams, clock=clock, **(specs or {})) as (servers, log):
        spool = Spool.memory()
        executor = Executor(servers.registry, spool=spool, budget=budget)
        server = ToolServer(
            executor, servers.registry, upstream=servers, spool=spool, filter_of=lambda _name: filter, **options
        )

        def on_change(fn: Callable[[], object]) -> Callable[[], None]:
            def call() -> None:
                fn()

            return servers.on_change(call)

        async with propagate_changes(server, on_change):
            yield MemoryGateway(servers, server, log)
