"""The redirect of a login: only the one that is waited for counts."""

import anyio
import pytest

from spindle.errors import OAuthError, UsageError
from spindle.mcp.oauth.redirects import listen_for_redirect, read_parameters

pytestmark = pytest.mark.anyio


async def send(port: int, request: str) -> bytes:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(request.encode())
        answer = b""
        try:
            while True:
                answer += await stream.receive()
        except anyio.EndOfStream:
            return answer


async def test_requests_that_do_not_belong_to_the_login_are_ignored() -> None:
    answers: list[bytes] = []
    found: dict[str, str] = {}
    with anyio.fail_after(30):
        async with listen_for_redirect() as listener, anyio.create_task_group() as tasks:
            host = listener.redirect_uri.split("/")[2]
            port = int(host.rpartition(":")[2])

            async def browse() -> None:
                own = f"Host: {host}\r\n\r\n"
                for line, headers in (
                    ("GET /callback?state=other&code=1", own),
                    ("GET /callback?code=1", own),
                    ("GET /elsewhere?state=s&code=1", own),
                    ("POST /callback?state=s&code=1", own),
                    ("GET /callback?state=s&code=1", "Host: evil.example\r\n\r\n"),
                    ("GET /callback?state=s&state=s&code=1", own),
                    ("nonsense", "\r\n\r\n"),
                    ("GET /callback?state=s&code=2&iss=https%3A%2F%2Fi.example", own),
                ):
                    answers.append(await send(port, f"{line} HTTP/1.1\r\n{headers}"))

            tasks.start_soon(browse)
            found.update(await listener.wait("s"))
    assert found == {"state": "s", "code": "2", "iss": "https://i.example"}
    assert [answer.split()[1] for answer in answers] == [b"400"] * 7 + [b"200"]


async def test_a_login_has_a_deadline_and_a_port_one_listener() -> None:
    async with listen_for_redirect() as listener:
        with pytest.raises(OAuthError):
            await listener.wait("s", seconds=0.01)
        port = int(listener.redirect_uri.split("/")[2].rpartition(":")[2])
        with pytest.raises(UsageError) as caught:
            async with listen_for_redirect(port):
                pass
    assert caught.value.field == "redirect_port"


def test_too_many_parameters_are_refused() -> None:
    assert read_parameters("&".join(f"a{n}=1" for n in range(100))) is None
