"""Names, addresses and redirects: what a request may not get to, however it is led."""

from collections.abc import Iterable

import pytest

from spindle.capabilities.declare import CallScope
from spindle.capabilities.network.backend import HttpNetwork, NetworkBackend
from spindle.errors import CapabilityError, HostNotAllowedError, NetworkError
from tests.capabilities.loopback import Request, answer, redirect, serving

pytestmark = pytest.mark.anyio

SCOPE = CallScope(tool="fetch", session_id="s1")


class Names:
    """A resolver of these names that counts its queries; lists are answered one after another."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self.answers = {name.replace("_", "."): list(each) for name, each in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Iterable[str]:
        self.asked.append(host)
        each = self.answers.get(host, [[]])
        return each.pop(0) if len(each) > 1 else each[0]


def handle(
    *need: str, names: Names | None = None, private: Iterable[str] = ("127.0.0.0/8",), max_redirects: int = 5
) -> HttpNetwork:
    backend = NetworkBackend(
        ["*"], private_addresses=private, resolver=names, timeout_seconds=30, max_redirects=max_redirects
    )
    return backend.open(need, SCOPE)


def ok(request: Request, connection: object) -> bytes:
    return answer(body=b"ok")


async def test_a_name_is_resolved_once_and_its_checked_address_dialled() -> None:
    names = Names(api_example=[["127.0.0.1"]])
    with serving(ok) as server:
        response = await handle("api.example", names=names).get(f"http://api.example:{server.port}/")
        assert await response.text() == "ok"

    assert names.asked == ["api.example"]
    assert server.requests[0].headers["host"] == f"api.example:{server.port}"


async def test_a_rebinding_name_is_dialled_where_it_was_checked() -> None:
    names = Names(api_example=[["127.0.0.2"], ["127.0.0.1"]])
    with serving(ok, host="127.0.0.1") as inside, serving(ok, host="127.0.0.2") as outside:
        network = handle("api.example", names=names, private=["127.0.0.2/32"])
        response = await network.get(f"http://api.example:{outside.port}/")
        assert await response.text() == "ok"
        assert (names.asked, outside.connections) == (["api.example"], 1)

        with pytest.raises(HostNotAllowedError):
            await network.get(f"http://api.example:{inside.port}/")

    assert inside.connections == 0


@pytest.mark.parametrize(
    "answers",
    [
        ["127.0.0.1"],
        ["93.184.215.14", "127.0.0.1"],
        ["127.0.0.1", "93.184.215.14"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["169.254.169.254"],
        ["93.184.215.14", "10.0.0.1"],
        ["fe80::1%lo"],
        ["127.1"],
    ],
)
async def test_a_name_with_one_bad_address_is_not_dialled_at_all(answers: list[str]) -> None:
    with serving(ok) as server, pytest.raises(HostNotAllowedError) as caught:
        await handle("*", names=Names(api_example=[answers]), private=[]).get(f"http://api.example:{server.port}/")

    assert caught.value.host == "api.example"
    assert server.connections == 0


async def test_a_name_for_the_metadata_address_is_refused_even_where_all_is_granted() -> None:
    names = Names(api_example=[["169.254.169.254"]])

    with pytest.raises(HostNotAllowedError):
        await handle("*", names=names, private=["0.0.0.0/0", "::/0"]).get("http://api.example/")


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    with serving(ok, host="127.0.0.3") as server:
        names = Names(api_example=[["127.0.0.4", "127.0.0.3"]])
        response = await handle("*", names=names).get(f"http://api.example:{server.port}/")

        assert await response.text() == "ok"


async def test_a_name_that_cannot_be_resolved_is_an_error() -> None:
    with pytest.raises(NetworkError) as caught:
        await handle("*", names=Names()).get("http://unknown.example/")

    assert (caught.value.reason, caught.value.host) == ("dns", "unknown.example")


async def test_a_resolver_that_fails_is_an_error() -> None:
    async def failing(host: str, port: int) -> list[str]:
        raise OSError("no servers")

    network = NetworkBackend(["*"], resolver=failing).open(("*",), SCOPE)

    with pytest.raises(NetworkError) as caught:
        await network.get("http://api.example/")
    assert caught.value.reason == "dns"


async def test_the_systems_resolver_is_checked_too() -> None:
    with serving(ok) as server:
        with pytest.raises(HostNotAllowedError):
            await handle("*", private=[]).get(f"http://localhost:{server.port}/")
        # Where localhost has an IPv6 address as well, both must be granted.
        network = handle("*", private=["127.0.0.0/8", "::1/128"])
        response = await network.get(f"http://localhost:{server.port}/")
        assert await response.text() == "ok"


@pytest.mark.parametrize(
    "spelling",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "017700000001",
        "127.0.0.1.",
        "１２７.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "[::1]",
        "0.0.0.0",
        "0",
        "localhost",
        "LOCALHOST.",
    ],
)
async def test_no_spelling_of_loopback_reaches_a_server_there(spelling: str) -> None:
    with serving(ok) as server, pytest.raises(CapabilityError):
        await handle("*", private=[]).get(f"http://{spelling}:{server.port}/")

    assert server.connections == 0


async def test_a_refused_host_is_not_even_resolved() -> None:
    names = Names(other_example=[["127.0.0.1"]])

    with pytest.raises(HostNotAllowedError):
        await handle("api.example", names=names).get("http://other.example/")

    assert names.asked == []


async def test_a_redirect_within_reach_is_followed() -> None:
    names = Names(api_example=[["127.0.0.1"]], cdn_example=[["127.0.0.2"]])
    with serving(ok, host="127.0.0.2") as there, serving(redirect(f"http://cdn.example:{there.port}/x")) as here:
        network = handle("api.example", "cdn.example", names=names)
        response = await network.get(
            f"http://api.example:{here.port}/",
            headers={"Authorization": "s3cret", "X-Api-Key": "s3cret", "Accept": "a/b"},
        )

        assert await response.text() == "ok"
        assert response.url == f"http://cdn.example:{there.port}/x"

    assert "s3cret" in here.requests[0].headers.values()
    (seen,) = there.requests
    assert "s3cret" not in seen.headers.values()
    assert (seen.headers["accept"], seen.headers["host"]) == ("a/b", f"cdn.example:{there.port}")


async def test_a_redirect_off_its_origin_is_the_answer_where_that_is_asked_for() -> None:
    names = Names(api_example=[["127.0.0.1"]])
    with serving(ok) as there, serving(redirect(f"http://api.example:{there.port}/x")) as here:
        response = await handle("api.example", names=names).request(
            "GET", f"http://api.example:{here.port}/", same_origin=True
        )
        body = await response.bytes()

    assert (response.status, response.headers["location"]) == (302, f"http://api.example:{there.port}/x")
    assert (body, there.requests) == (b"", [])


async def test_a_redirect_to_a_host_the_tool_did_not_declare_is_refused() -> None:
    names = Names(api_example=[["127.0.0.1"]], other_example=[["127.0.0.2"]])
    with (
        serving(ok, host="127.0.0.2") as there,
        serving(redirect(f"http://other.example:{there.port}/")) as here,
        pytest.raises(HostNotAllowedError) as caught,
    ):
        await handle("api.example", names=names).get(f"http://api.example:{here.port}/")

    assert (caught.value.host, there.connections) == ("other.example", 0)
    assert names.asked == ["api.example"]


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://metadata.google.internal/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://2852039166/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "http://10.0.0.1/",
        "http://127.0.0.9/",
        "http://u:p@api.example/",
        "//10.1/",
        "http://0x7f.2/",
        "javascript:alert(1)",
        "http://api.example:22/",
        "\\\\10.0.0.1\\x",
    ],
)
async def test_a_redirect_out_of_reach_is_refused(location: str) -> None:
    with serving(redirect(location)) as server:
        with pytest.raises(CapabilityError):
            await handle("*", private=["127.0.0.1/32"]).get(server.url)

        assert len(server.requests) == 1


async def test_a_name_behind_a_redirect_is_checked_by_its_address() -> None:
    names = Names(api_example=[["127.0.0.1"]], cdn_example=[["127.0.0.2"]])
    with (
        serving(ok, host="127.0.0.2") as there,
        serving(redirect(f"http://cdn.example:{there.port}/")) as here,
        pytest.raises(HostNotAllowedError) as caught,
    ):
        await handle("*", names=names, private=["127.0.0.1/32"]).get(f"http://api.example:{here.port}/")

    assert (caught.value.host, there.connections) == ("cdn.example", 0)


@pytest.mark.parametrize(("hops", "allowed", "enough"), [(3, 3, True), (4, 3, False), (1, 0, False), (0, 0, True)])
async def test_redirects_are_counted(hops: int, allowed: int, enough: bool) -> None:
    def stepwise(request: Request, connection: object) -> bytes:
        step = int(request.path.strip("/"))
        return answer(body=b"ok") if step == hops else answer("302 Found", location=f"/{step + 1}")

    with serving(stepwise) as server:
        network = handle("*", max_redirects=allowed)
        if enough:
            assert await (await network.get(f"{server.url}/0")).text() == "ok"
        else:
            with pytest.raises(NetworkError) as caught:
                await network.get(f"{server.url}/0")
            assert caught.value.reason == "too_many_redirects"
            assert len(server.requests) == allowed + 1


@pytest.mark.parametrize(("status", "method", "body"), [("303 See Other", "GET", b""), ("307 Moved", "POST", b"data")])
async def test_a_redirected_post_is_sent_as_browsers_do(status: str, method: str, body: bytes) -> None:
    def once(request: Request, connection: object) -> bytes:
        return answer(status, location="/there") if request.path == "/" else answer(body=b"ok")

    with serving(once) as server:
        assert await (await handle("*").post(server.url, content=b"data")).text() == "ok"

    assert (server.requests[1].method, server.requests[1].body) == (method, body)


@pytest.mark.parametrize("status", ["302 Found", "304 Not Modified", "300 Multiple Choices"])
async def test_without_a_place_to_go_a_redirect_is_an_answer(status: str) -> None:
    with serving(lambda request, connection: answer(status)) as server:
        response = await handle("*").get(server.url)

        assert response.status == int(status[:3])
        await response.aclose()


async def test_two_location_headers_are_not_followed() -> None:
    raw = b"HTTP/1.1 302 Found\r\nlocation: /a\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n"
    with serving(lambda request, connection: raw) as server, pytest.raises(NetworkError) as caught:
        await handle("*").get(server.url)

    assert caught.value.reason == "protocol"
