"""The older HTTP+SSE transport (2024-11-05): one stream of events from the server, and a POST for each message.

The limits are those of `http`: no redirects, bounded messages, credentials resolved for each request. The server names
the address for messages in its first event; only one of its own origin is accepted.
"""

import contextvars
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCRequest, jsonrpc_message_adapter

from spindle.errors import UpstreamError
from spindle.mcp.client.http import LIMITED_TIMEOUT, HttpLink, build_guarded_transport
from spindle.mcp.client.link import MAX_MESSAGE_BYTES, BoundedLines, LinkFailure, OversizedLine
from spindle.text import to_printable

MAX_POSTS: Final = 64
"""Messages that are sent at once."""
_MAX_ADDRESS: Final = 4_000
_MAX_ERROR: Final = 500
_GONE: Final = 404
_Sent = tuple[contextvars.Context, SessionMessage]


class EventParser:
    """Parses a stream of events with a size limit for each."""

    def __init__(self, max_bytes: int) -> None:
        self._lines = BoundedLines(max_bytes, keeps_blank=True)
        self._max_bytes = max_bytes
        self._event, self._data, self._size = "", list[str](), 0

    def feed(self, chunk: bytes) -> Iterator[tuple[str, str]]:
        """Append a chunk and yield the type and data of each event that is now complete.

        Raises:
            ValueError: An event is larger than the limit.
        """
        for line in self._lines.feed(chunk):
            self._size += line.size if isinstance(line, OversizedLine) else len(line)
            if isinstance(line, OversizedLine) or self._size > self._max_bytes:
                raise ValueError(f"its message is larger than the limit of {self._max_bytes} bytes")
            text = line.decode("utf-8", "replace").removesuffix("\r")
            if not text:
                if self._data:
                    yield self._event or "message", "\n".join(self._data)
                self._event, self._data, self._size = "", [], 0
                continue
            name, _, value = text.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                self._data.append(value)
            elif name == "event":
                self._event = value


def resolve_endpoint(url: str, given: str) -> str:
    """Return the address for messages that a server names.

    Raises:
        ValueError: It is too long, invalid, or of another origin, to which credentials must not be sent.
    """
    if len(given) > _MAX_ADDRESS or not given.isprintable():
        raise ValueError("it names an invalid address for messages")
    found = urljoin(url, given)
    own, other = urlsplit(url), urlsplit(found)
    if (own.scheme, own.netloc) != (other.scheme, other.netloc):
        raise ValueError("it names an address for messages of another origin, which is refused")
    return found


class SseLink(HttpLink):
    """The link over the older HTTP transport."""

    is_older = True

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any, None]:
        """Connect and yield the message streams.

        Raises:
            UpstreamError: The server does not offer this transport.
        """
        url = self._spec.url or ""
        guarded = build_guarded_transport(url, self)
        came, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, sent = anyio.create_memory_object_stream[_Sent](0)
        async with (
            httpx2.AsyncClient(transport=guarded, timeout=LIMITED_TIMEOUT, headers=self._spec.headers) as client,
            client.stream("GET", url, headers={"accept": "text/event-stream"}) as response,
            came,
            incoming,
            outgoing,
            sent,
            anyio.create_task_group() as tasks,
        ):
            await self._check_stream(response)
            endpoint = await tasks.start(self._read, response, came)
            tasks.start_soon(self._write, client, endpoint, sent, came)
            yield incoming, _ContextSender(outgoing)
            tasks.cancel_scope.cancel()

    async def _check_stream(self, response: httpx2.Response) -> None:
        is_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if response.is_success and is_events:
            return
        problem = await self._read_failure(response)
        words = f"it does not answer with a stream of events ({response.status_code})"
        raise UpstreamError(words if problem is None else problem[1], server=self._spec.name)

    async def _read_failure(self, response: httpx2.Response) -> tuple[LinkFailure, str] | None:
        """Return the failure that the transport of this link has put into a response."""
        try:
            error = ErrorData.model_validate(json.loads(await response.aread())["error"])
        except (ValueError, KeyError, TypeError, httpx2.HTTPError, httpx2.StreamError):
            return None
        failure = self.error_marker.get_failure(MCPError.from_error_data(error))
        return None if failure is None else (failure, to_printable(error.message, _MAX_ERROR))

    async def _read(
        self,
        response: httpx2.Response,
        came: MemoryObjectSendStream[SessionMessage | Exception],
        *,
        task_status: anyio.abc.TaskStatus[str],
    ) -> None:
        events, has_endpoint = EventParser(MAX_MESSAGE_BYTES), False
        try:
            with suppress(httpx2.HTTPError, httpx2.StreamError, anyio.BrokenResourceError):
                async for chunk in response.aiter_bytes():
                    for event, data in events.feed(chunk):
                        if event == "endpoint" and not has_endpoint:
                            endpoint = resolve_endpoint(self._spec.url or "", data)
                            has_endpoint = True
                            task_status.started(endpoint)
                        elif event == "message" and has_endpoint:
                            await came.send(_parse(data))
        except ValueError as error:
            if not has_endpoint:
                raise UpstreamError(str(error), server=self._spec.name) from error
            await came.send(error)
        if not has_endpoint:
            raise UpstreamError("its stream ended without an address for messages", server=self._spec.name)
        self.broken.set()
        came.close()

    async def _write(
        self,
        client: httpx2.AsyncClient,
        endpoint: str,
        sent: MemoryObjectReceiveStream[_Sent],
        came: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        limiter = anyio.CapacityLimiter(MAX_POSTS)

        async def post(message: SessionMessage) -> None:
            async with limiter:
                failure = await self._post(client, endpoint, message)
            if failure is not None and isinstance(message.message, JSONRPCRequest):
                answer = self.error_marker.build_response(message.message.id, *failure)
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await came.send(SessionMessage(answer))

        async with anyio.create_task_group() as posts:
            async for context, message in sent:
                # In the context of its call, whose headers the request has.
                context.run(posts.start_soon, post, message)

    async def _post(
        self, client: httpx2.AsyncClient, endpoint: str, message: SessionMessage
    ) -> tuple[LinkFailure, str] | None:
        """Send a message; return why it failed, or `None`."""
        body = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        headers = {"content-type": "application/json"}
        try:
            async with client.stream("POST", endpoint, content=body, headers=headers) as response:
                if response.is_success:
                    return None
                failure = await self._read_failure(response)
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            return "lost", f"the connection was lost ({type(error).__name__})"
        if failure is not None:
            return failure
        if response.status_code == _GONE:
            return "gone", "it no longer knows our session"
        return "refused", f"it refused the message ({response.status_code})"


class _ContextSender:
    """The stream of outgoing messages, which keeps the context of each sender."""

    def __init__(self, inner: MemoryObjectSendStream[_Sent]) -> None:
        self._inner = inner

    async def send(self, item: SessionMessage) -> None:
        await self._inner.send((contextvars.copy_context(), item))

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


def _parse(data: str) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False))
    except ValueError as error:
        return error
