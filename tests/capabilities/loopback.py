"""A small HTTP server on loopback, in threads of its own so that it serves either event loop."""

import socket
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Request:
    """What the server was asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[Request, socket.socket], bytes]
"""Gives the raw answer; may write to the connection by itself, too."""


@dataclass
class Server:
    """Where it listens, and what became of its connections."""

    host: str
    port: int
    requests: list[Request] = field(default_factory=list[Request])
    connections: int = 0
    stopping: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)
    """Set at the first request."""
    left: threading.Event = field(default_factory=threading.Event)
    """Set when a client has closed its connection."""

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


def answer(status: str = "200 OK", body: bytes = b"", **headers: str) -> bytes:
    """Write a whole answer with its length."""
    named = {"content-length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def redirect(location: str, status: str = "302 Found") -> Answer:
    """Answer every request with a redirect."""
    return lambda request, connection: answer(status, location=location)


@contextmanager
def serving(respond: Answer, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Generator[Server]:
    """Serve until the end of the block."""
    listener = socket.create_server((host, 0))
    server = Server(host, listener.getsockname()[1])
    threads: list[threading.Thread] = []
    open_connections: list[socket.socket] = []

    def accept() -> None:
        while not server.stopping.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            server.connections += 1
            open_connections.append(connection)
            thread = threading.Thread(target=_serve, args=(server, connection, respond, tls))
            threads.append(thread)
            thread.start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield server
    finally:
        server.stopping.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in open_connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in [acceptor, *threads]:
            thread.join(30)
            assert not thread.is_alive()
        for connection in open_connections:
            connection.close()


def _serve(server: Server, connection: socket.socket, respond: Answer, tls: ssl.SSLContext | None) -> None:
    with suppress(OSError), _secured(connection, tls) as stream:
        while (request := _read_request(stream)) is not None:
            server.requests.append(request)
            server.asked.set()
            stream.sendall(respond(request, stream))
    server.left.set()


@contextmanager
def _secured(connection: socket.socket, tls: ssl.SSLContext | None) -> Generator[socket.socket]:
    if tls is None:
        yield connection
        return
    stream = tls.wrap_socket(connection, server_side=True)
    try:
        yield stream
    finally:
        stream.close()


def _read_request(stream: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = stream.recv(65_536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += stream.recv(65_536)
    method, path, _ = first.split(" ")
    return Request(method, path, headers, body)
