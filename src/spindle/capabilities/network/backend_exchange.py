"""One HTTP request with its redirects, and the limits on its response body."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import anyio
import httpcore2

from spindle.capabilities.network.backend_dialer import ConnectionPools, translate_http_errors
from spindle.capabilities.network.decoding import Decoder, build_decoder
from spindle.capabilities.network.handle import REDIRECTS, Headers, Outgoing, Reach, Response, redirected
from spindle.errors import NetworkError


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """The limits of one response body."""

    host: str
    max_bytes: int
    deadline: float
    """In seconds of the event loop's clock."""


class HttpBody:
    """The decoded body of one response; its connection is released at the end, on any failure and by `aclose`."""

    def __init__(
        self,
        answer: httpcore2.Response,
        decoder: Decoder | None,
        limits: BodyLimits,
        on_closed: Callable[["HttpBody"], None],
    ) -> None:
        self._answer = answer
        self._chunks = answer.aiter_stream()
        self._decoder = decoder
        self._limits = limits
        self._on_closed = on_closed
        self._pieces: Iterator[bytes] = iter(())
        self._received_bytes = 0
        self._emitted_bytes = 0
        self._closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._closed:
            raise StopAsyncIteration
        try:
            piece = await self._next_piece()
        except BaseException:
            await self.aclose()
            raise
        if piece is None:
            await self.aclose()
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Close the response, even while the caller is being cancelled."""
        if self._closed:
            return
        self._closed = True
        self._pieces = iter(())
        with anyio.CancelScope(shield=True):
            with suppress(RuntimeError):  # another task is reading; closing the response ends that
                await self._chunks.aclose()
            await self._answer.aclose()
            self._on_closed(self)

    async def _next_piece(self) -> bytes | None:
        while True:
            piece = self._decoded()
            if piece is not None:
                self._emitted_bytes = self._check_size(self._emitted_bytes + len(piece))
                return piece
            raw = await self._read()
            if raw is None:
                return self._finish()
            self._received_bytes = self._check_size(self._received_bytes + len(raw))
            self._pieces = iter((raw,)) if self._decoder is None else self._decoder.feed(raw)

    def _decoded(self) -> bytes | None:
        try:
            return next(self._pieces, None)
        except ValueError as error:
            raise self._build_decoding_error(error) from error

    def _finish(self) -> None:
        try:
            if self._decoder is not None:
                self._decoder.finish()
        except ValueError as error:
            raise self._build_decoding_error(error) from error

    async def _read(self) -> bytes | None:
        with translate_http_errors(self._limits.host):
            with anyio.fail_after(self._limits.deadline - anyio.current_time()):
                return await anext(self._chunks, None)

    def _check_size(self, count: int) -> int:
        if count > self._limits.max_bytes:
            raise build_too_large_error(self._limits)
        return count

    def _build_decoding_error(self, error: ValueError) -> NetworkError:
        host = self._limits.host
        return NetworkError(f"the response of {host} cannot be decoded: {error}", host=host, reason="decoding")


def build_too_large_error(limits: BodyLimits) -> NetworkError:
    """Build the error for a body over its limit."""
    return NetworkError(
        f"the response of {limits.host} is larger than {limits.max_bytes} bytes; "
        "request less, or raise max_response_bytes",
        host=limits.host,
        reason="too_large",
    )


MAX_HEADER_BYTES = 65_536


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestLimits:
    """The limits of one request."""

    max_response_bytes: int
    timeout_seconds: float
    max_redirects: int


class Exchange:
    """The requests of one handle and their open responses."""

    def __init__(self, connections: ConnectionPools, reach: Reach, limits: RequestLimits) -> None:
        self._connections = connections
        self._reach = reach
        self._limits = limits
        self._open: set[HttpBody] = set()

    async def send(self, request: Outgoing, *, same_origin: bool = False) -> Response:
        """Send a request and follow its redirects, checking each target; with `same_origin`, only within the origin.

        Raises:
            CapabilityError: A target is not allowed.
            NetworkError: The request failed, timed out or its response is invalid.
        """
        deadline = anyio.current_time() + self._limits.timeout_seconds
        for _ in range(self._limits.max_redirects + 1):
            self._reach.check(request.target)
            answer = await self._send(request, deadline)
            try:
                headers = _headers(answer, request.target.host)
                location = _location(answer.status, headers, request.target.host)
                following = None if location is None else redirected(request, answer.status, location)
                if following is None or (same_origin and following.target.origin != request.target.origin):
                    return self._response(answer, headers, request, deadline)
                request = following
            except BaseException:
                await _close(answer)
                raise
            await _close(answer)
        host = request.target.host
        raise NetworkError(
            f"more than {self._limits.max_redirects} redirects, the last one to {host}; it may be a loop",
            host=host,
            reason="too_many_redirects",
        )

    async def aclose(self) -> None:
        """Close every response that was not read to its end."""
        for body in list(self._open):
            await body.aclose()

    async def _send(self, request: Outgoing, deadline: float) -> httpcore2.Response:
        target = request.target
        message = httpcore2.Request(
            method=request.method.encode("ascii"),
            url=httpcore2.URL(
                scheme=target.scheme.encode("ascii"),
                host=target.host.encode("ascii"),
                port=target.port,
                target=target.path.encode("ascii"),
            ),
            headers=request.wire_headers(),
            content=request.content,
        )
        with translate_http_errors(target.host):
            with anyio.fail_after(deadline - anyio.current_time()):
                return await self._connections.get_pool().handle_async_request(message)

    def _response(self, answer: httpcore2.Response, headers: Headers, request: Outgoing, deadline: float) -> Response:
        host = request.target.host
        limits = BodyLimits(host=host, max_bytes=self._limits.max_response_bytes, deadline=deadline)
        announced = headers.get("content-length", "")
        if request.method != "HEAD" and announced.isdecimal() and int(announced[:20]) > limits.max_bytes:
            raise build_too_large_error(limits)
        try:
            decoder = build_decoder(headers.get_list("content-encoding"))
        except ValueError as error:
            raise NetworkError(
                f"the response of {host} cannot be decoded: {error}", host=host, reason="decoding"
            ) from error
        body = HttpBody(answer, decoder, limits, self._open.discard)
        self._open.add(body)
        return Response(answer.status, headers, request.target.url, body)


async def _close(answer: httpcore2.Response) -> None:
    with anyio.CancelScope(shield=True):
        await answer.aclose()


def _headers(answer: httpcore2.Response, host: str) -> Headers:
    if sum(len(name) + len(value) for name, value in answer.headers) > MAX_HEADER_BYTES:
        raise NetworkError(
            f"the headers of {host} are larger than {MAX_HEADER_BYTES} bytes", host=host, reason="too_large"
        )
    return Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers)


def _location(status: int, headers: Headers, host: str) -> str | None:
    found = set(headers.get_list("location"))
    if status not in REDIRECTS or not found:
        return None
    if len(found) > 1:
        raise NetworkError(f"{host} sent several different Location headers", host=host, reason="protocol")
    (location,) = found
    try:
        return location.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return location
