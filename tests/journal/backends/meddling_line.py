"""A proxy between a journal and its server that drops chosen messages."""

import contextlib
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from urllib.parse import urlsplit

KEY_DATA = b"K\0\0\0\x0c"
"""The beginning of the message in which a server sends the number of its process."""


class Line:
    """Passes on what both sides say; each new connection goes to the server, unless it is down."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.is_down = False
        self.lose_answer_to: bytes | None = None
        """Once the journal has sent this, the server executes it, and the journal receives nothing more."""
        self.goes_down_then = False
        self._lost: socket.socket | None = None
        self.rewrite: Callable[[bytes], bytes] = bytes
        """Changes what the server says."""
        self.connections = 0
        self._clients: list[socket.socket] = []
        self._servers: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def sever_client(self) -> None:
        """Cut the journal off; the server does not notice."""
        while self._clients:
            _shut(self._clients.pop())

    def close(self) -> None:
        self.is_down = True
        _shut(self._listener)
        self.sever_client()
        while self._servers:
            _shut(self._servers.pop())

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.is_down:
                    client.close()
                    continue
                self.connections += 1
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._clients.append(client)
                self._servers.append(server)
                threading.Thread(target=self._ask, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answer, args=(client, server), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while said := client.recv(65536):
                if self.lose_answer_to is not None and self.lose_answer_to in said:
                    self.lose_answer_to, self._lost = None, client
                server.sendall(said)

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while said := server.recv(65536):
                if self._lost is client:
                    self.is_down = self.goes_down_then
                    break
                client.sendall(self.rewrite(said))
        _shut(client)


def _shut(line: socket.socket) -> None:
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()


@contextmanager
def meddling_line(dsn: str) -> Generator[tuple[Line, str]]:
    """A line to a server, and the dsn that goes over it."""
    port = urlsplit(dsn).port
    assert port is not None
    line = Line(port)
    try:
        yield line, dsn.replace(f":{port}/", f":{line.port}/")
    finally:
        line.close()
