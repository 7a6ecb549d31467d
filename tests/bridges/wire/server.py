"""A real HTTP server on loopback that plays a script: what providers answer, and how their streams break."""

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

_MAX_HEAD_BYTES = 65_536


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a client sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    """By their names in small letters."""
    body: bytes

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the server says to one request."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    chunks: Sequence[bytes] = ()
    """The body; each chunk is sent by itself."""
    cut_after: int | None = None
    """The connection is broken off after that many bytes of the body."""
    holds: bool = False
    """After the chunks nothing more is said, until the client leaves: see `WireServer.left`."""


Script: TypeAlias = Iterable[Answer | Callable[[Request], Answer]]


def json_answer(data: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Answer with JSON as a whole."""
    kind = {"content-type": "application/json"}
    return Answer(status=status, headers={**kind, **(headers or {})}, chunks=(json.dumps(data).encode(),))


def sse_answer(
    events: Iterable[Any],
    *,
    is_named: bool = False,
    end: str | None = None,
    cut_after: int | None = None,
    holds: bool = False,
) -> Answer:
    """Answer with server-sent events.

    Text and bytes are sent as the very data they are; with `is_named` each event carries its `type` as its name; `end`
    is a last line of data, such as `[DONE]`.
    """
    chunks = [_event(each, is_named=is_named) for each in events]
    if end is not None:
        chunks.append(f"data: {end}\n\n".encode())
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    return Answer(headers=headers, chunks=chunks, cut_after=cut_after, holds=holds)


def _event(event: Any, *, is_named: bool) -> bytes:
    name = f"event: {event['type']}\n".encode() if is_named and isinstance(event, Mapping) else b""
    data = event if isinstance(event, bytes) else (event if isinstance(event, str) else json.dumps(event)).encode()
    return name + b"data: " + data + b"\n\n"


class WireServer:
    """Answers request n with step n of the script, and keeps what it was sent."""

    def __init__(self, script: Script, port: int) -> None:
        self._script = list(script)
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.requests: list[Request] = []
        self.arrived = anyio.Event()
        """A request is here, and its answer has been sent as far as it goes."""
        self.left = anyio.Event()
        """A client went away from an answer that holds."""

    @classmethod
    @asynccontextmanager
    async def playing(cls, *script: Answer | Callable[[Request], Answer]) -> AsyncGenerator["WireServer"]:
        """Run a server for as long as the block lasts."""
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
            server = cls(script, listener.extra(SocketAttribute.local_port))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listener.serve, server.serve)
                yield server
                tasks.cancel_scope.cancel()

    async def serve(self, client: SocketStream) -> None:
        """Answer the requests of one connection, one after another."""
        async with client:
            incoming = BufferedByteReceiveStream(client)
            try:
                while await self._exchange(client, incoming):
                    pass
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                pass

    async def _exchange(self, client: SocketStream, incoming: BufferedByteReceiveStream) -> bool:
        request = await _read(incoming)
        self.requests.append(request)
        answer = self._next(request)
        await client.send(_head(answer))
        sent = 0
        for chunk in answer.chunks:
            part = chunk if answer.cut_after is None else chunk[: max(0, answer.cut_after - sent)]
            sent += len(part)
            if part:
                await client.send(b"%x\r\n%b\r\n" % (len(part), part))
        if answer.cut_after is not None:
            return False
        self.arrived.set()
        if answer.holds:
            await self._await_leaving(incoming)
            return False
        await client.send(b"0\r\n\r\n")
        return True

    def _next(self, request: Request) -> Answer:
        position = len(self.requests) - 1
        if position >= len(self._script):
            return json_answer({"error": {"message": "the script of the test server is over"}}, status=418)
        step = self._script[position]
        return step if isinstance(step, Answer) else step(request)

    async def _await_leaving(self, incoming: BufferedByteReceiveStream) -> None:
        try:
            await incoming.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            self.left.set()


def _head(answer: Answer) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} Scripted", "transfer-encoding: chunked"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


async def _read(incoming: BufferedByteReceiveStream) -> Request:
    head = (await incoming.receive_until(b"\r\n\r\n", _MAX_HEAD_BYTES)).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = [line.partition(":") for line in lines]
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return Request(method=method, path=path, headers=headers, body=await _body(incoming, headers))


async def _body(incoming: BufferedByteReceiveStream, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return await incoming.receive_exactly(int(headers.get("content-length", "0")))
    parts: list[bytes] = []
    while size := int(await incoming.receive_until(b"\r\n", 64), 16):
        parts.append(await incoming.receive_exactly(size))
        await incoming.receive_exactly(2)
    await incoming.receive_exactly(2)
    return b"".join(parts)
