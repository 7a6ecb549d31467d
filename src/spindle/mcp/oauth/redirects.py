"""The redirect at the end of a login: a listener on loopback that takes one answer, for the state it waits for."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from secrets import compare_digest
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.stapled import MultiListener

from spindle.errors import OAuthError, UsageError

PATH: Final = "/callback"
LOGIN_SECONDS: Final = 300.0
MAX_PARAMETERS: Final = 20
_MAX_HEAD_BYTES: Final = 16_384
_HEAD_SECONDS: Final = 10.0
_MAX_CONNECTIONS: Final = 8
_DONE: Final = "The login was received. You can close this window and go back to the terminal."
_UNKNOWN: Final = "This is not the login that is waited for."


class RedirectListener:
    """Listens on loopback for the browser; what does not belong to the login is answered and ignored."""

    def __init__(self, listener: MultiListener[SocketStream]) -> None:
        self._listener = listener
        self._host = f"127.0.0.1:{listener.extra(SocketAttribute.local_port)}"  # noqa: S610  of anyio, not Django
        self.redirect_uri = f"http://{self._host}{PATH}"
        """What the browser is sent to."""

    async def wait(self, state: str, *, seconds: float = LOGIN_SECONDS) -> dict[str, str]:
        """Return the parameters of the redirect with this state.

        Raises:
            OAuthError: It did not come in time.
        """
        found: list[dict[str, str]] = []
        room = anyio.Semaphore(_MAX_CONNECTIONS)
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as tasks:

                async def serve(stream: SocketStream) -> None:
                    async with room, stream:
                        with anyio.move_on_after(_HEAD_SECONDS):
                            answer = await self._serve(stream, state)
                            if answer is not None and not found:
                                found.append(answer)
                                tasks.cancel_scope.cancel()

                tasks.start_soon(self._listener.serve, serve)
        if not found:
            raise OAuthError(f"no login was received within {seconds:g} s; start again")
        return found[0]

    async def _serve(self, stream: SocketStream, state: str) -> dict[str, str] | None:
        head = b""
        try:
            while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD_BYTES:
                head += await stream.receive()
            answer = self._read(head)
            is_ours = answer is not None and has_state(answer, state)
            await stream.send(_build_page(_DONE if is_ours else _UNKNOWN, 200 if is_ours else 400))
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return None
        return answer if is_ours else None

    def _read(self, head: bytes) -> dict[str, str] | None:
        """Return the parameters of a redirect; a page of another site could also send requests here."""
        first, *lines = head.decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        parts = urlsplit(rest.partition(" ")[0])
        hosts = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("host:")]
        if method != "GET" or parts.path != PATH or hosts != [self._host]:
            return None
        return read_parameters(parts.query)


def read_parameters(query: str) -> dict[str, str] | None:
    """Return the parameters of a redirect, or `None` if one of them is repeated: a server may read the other one."""
    try:
        pairs = parse_qsl(query, max_num_fields=MAX_PARAMETERS, keep_blank_values=True)
    except ValueError:
        return None
    return dict(pairs) if len({name for name, _ in pairs}) == len(pairs) else None


def has_state(answer: Mapping[str, str], state: str) -> bool:
    """Return whether a redirect has the state of a login."""
    return compare_digest(answer.get("state", "").encode("utf-8", "replace"), state.encode())


@asynccontextmanager
async def listen_for_redirect(port: int | None = None) -> AsyncGenerator[RedirectListener]:
    """Listen on a port of loopback, by default a free one.

    Raises:
        UsageError: The port is in use.
    """
    try:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port or 0)
    except OSError as error:
        raise UsageError(f"cannot listen on port {port}: {error.strerror}", field="redirect_port") from error
    async with listener:
        yield RedirectListener(listener)


def _build_page(text: str, status: int) -> bytes:
    lines = (
        f"HTTP/1.1 {status} {'OK' if status == 200 else 'Bad Request'}",
        *("Content-Type: text/plain; charset=utf-8", f"Content-Length: {len(text)}", "Cache-Control: no-store"),
        *("Referrer-Policy: no-referrer", "X-Content-Type-Options: nosniff", "Connection: close"),
    )
    return "\r\n".join([*lines, "", text]).encode()
