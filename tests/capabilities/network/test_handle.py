from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from spindle.capabilities.network.addresses import METADATA_NAMES, AddressPolicy
from spindle.capabilities.network.handle import (
    Headers,
    Outgoing,
    Reach,
    Response,
    check_addresses,
    outgoing,
    redirected,
)
from spindle.capabilities.network.hosts import HostList, parse_url
from spindle.capabilities.secrets.secret import Secret
from spindle.errors import CapabilityError, HostNotAllowedError, NetworkError

pytestmark = pytest.mark.anyio


def reach(declared: Sequence[str], granted: Sequence[str], private: Sequence[str] = ()) -> Reach:
    return Reach(HostList(declared), HostList(granted), AddressPolicy(private))


@pytest.mark.parametrize(
    ("declared", "granted", "host", "allowed"),
    [
        (["a.example"], ["a.example"], "a.example", True),
        (["A.Example"], ["a.example."], "a.EXAMPLE", True),
        (["a.example"], ["*"], "a.example", True),
        (["*"], ["a.example"], "a.example", True),
        (["*"], ["*"], "a.example", True),
        (["*.example"], ["a.example"], "a.example", True),
        (["*"], ["a.example"], "b.example", False),
        (["a.example"], ["b.example"], "a.example", False),
        (["a.example"], ["b.example"], "b.example", False),
        (["*.a.example"], ["*"], "a.example", False),
        (["*"], ["*.a.example"], "a.example", False),
        (["*"], [], "a.example", False),
        ([], ["*"], "a.example", False),
    ],
)
def test_a_tool_reaches_what_it_declared_and_was_granted(
    declared: list[str], granted: list[str], host: str, allowed: bool
) -> None:
    target = parse_url(f"https://{host}/")

    if allowed:
        reach(declared, granted).check(target)
        return
    with pytest.raises(HostNotAllowedError) as caught:
        reach(declared, granted).check(target)
    assert caught.value.host == host.lower()
    assert isinstance(caught.value, CapabilityError)


@pytest.mark.parametrize("name", sorted(METADATA_NAMES))
@pytest.mark.parametrize("spelling", ["{}", "{}.", "{:U}"])
def test_a_metadata_service_can_never_be_granted(name: str, spelling: str) -> None:
    spelled = name.upper() if spelling == "{:U}" else spelling.format(name)

    with pytest.raises(HostNotAllowedError):
        reach(["*", name], ["*", name], ["0.0.0.0/0", "::/0"]).check(parse_url(f"http://{spelled}/"))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "0x7f000001",
        "[::1]",
        "[::127.0.0.1]",
        "[fe90::1]",
        "[fec0::1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::1]",
        "198.18.0.1",
        "192.0.0.1",
        "192.0.2.1",
        "10.0.0.1",
        "100.64.0.1",
        "[::ffff:169.254.169.254]",
    ],
)
def test_an_address_that_is_not_public_is_out_of_reach_even_by_name(host: str) -> None:
    with pytest.raises(HostNotAllowedError):
        reach(["*", host], ["*", host]).check(parse_url(f"http://{host}/"))


@pytest.mark.parametrize("host", ["[::ffff:169.254.169.254]", "169.254.170.2", "[fd00:ec2::254]", "100.100.100.200"])
def test_a_metadata_address_stays_out_of_reach_where_private_addresses_are_granted(host: str) -> None:
    with pytest.raises(HostNotAllowedError):
        reach(["*"], ["*"], ["0.0.0.0/0", "::/0"]).check(parse_url(f"http://{host}/"))


def test_a_private_address_is_reached_by_explicit_grant() -> None:
    reach(["127.0.0.1"], ["127.0.0.1"], ["127.0.0.0/8"]).check(parse_url("http://127.1:8080/"))


@pytest.mark.parametrize(
    "answers",
    [["10.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["8.8.8.8", "::1"], ["8.8.8.8", "fe80::1%eth0"], ["8.8.8.8", "nonsense"]],
)
def test_one_bad_answer_spoils_a_name(answers: list[str]) -> None:
    with pytest.raises(HostNotAllowedError) as caught:
        check_addresses("api.example", answers, AddressPolicy())

    assert caught.value.host == "api.example"


def test_good_answers_are_given_once_each_in_their_order() -> None:
    answers = ["2606:4700::1111", "1.1.1.1", "2606:4700:0::1111"]

    assert check_addresses("api.example", answers, AddressPolicy()) == ["2606:4700::1111", "1.1.1.1"]


class Chunks:
    """A body made of these chunks."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = list(chunks)
        self.closed = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self.chunks:
            raise StopAsyncIteration
        return self.chunks.pop(0)

    async def aclose(self) -> None:
        self.closed += 1


def response(*chunks: bytes, **headers: str) -> Response:
    named = Headers((name.replace("_", "-"), value) for name, value in headers.items())
    return Response(200, named, "https://api.example/a?key=sesame", Chunks(*chunks))


async def test_a_body_can_be_read_in_every_form_and_again() -> None:
    answer = response(b'{"a"', b": 1}")

    assert await answer.text() == '{"a": 1}'
    assert await answer.bytes() == b'{"a": 1}'
    assert await answer.json() == {"a": 1}
    assert [chunk async for chunk in answer.stream()] == [b'{"a": 1}']


async def test_a_stream_is_taken_once() -> None:
    answer = response(b"a", b"b")

    assert [chunk async for chunk in answer.stream()] == [b"a", b"b"]
    with pytest.raises(NetworkError) as caught:
        await answer.bytes()
    assert caught.value.reason == "consumed"


@pytest.mark.parametrize(
    ("content_type", "data", "text"),
    [
        ("text/plain", "ü".encode(), "ü"),
        ("text/plain", "\ufeffü".encode(), "ü"),
        ("text/plain; charset=ISO-8859-1", b"\xfc", "ü"),
        ('text/html; charset="windows-1252"', b"\x80", "€"),
        ("text/plain; charset=made-up", "ü".encode(), "ü"),
        ("text/plain; charset=base64", b"YQ==", "YQ=="),
        ("text/plain; charset=punycode", b"a-b", "a-b"),
        ("text/plain; charset=undefined", b"a", "a"),
        ("text/plain", b"a\xffb", "a\ufffdb"),
    ],
)
async def test_text_is_read_in_the_charset_the_headers_name(content_type: str, data: bytes, text: str) -> None:
    assert await response(data, content_type=content_type).text() == text


@pytest.mark.parametrize("data", [b"", b"<html>", b"NaN", b"[" * 100_000, b"\xff\xfe\x00"])
async def test_a_body_that_is_not_json_is_reported(data: bytes) -> None:
    with pytest.raises(NetworkError) as caught:
        await response(data).json()

    assert (caught.value.reason, caught.value.host) == ("decoding", "api.example")


async def test_leaving_a_response_lets_go_of_its_connection() -> None:
    body = Chunks(b"a")

    async with Response(200, Headers(), "https://api.example/", body):
        pass

    assert body.closed == 1


async def test_headers_are_found_in_any_case_and_repeated_ones_are_joined() -> None:
    headers = Headers([("Content-Type", "text/html"), ("Set-Cookie", "a=1"), ("set-cookie", "b=2")])

    assert headers["CONTENT-TYPE"] == "text/html"
    assert headers["set-cookie"] == "a=1, b=2"
    assert headers.get_list("Set-Cookie") == ["a=1", "b=2"]
    assert "content-type" in headers
    assert headers.get("x") is None
    assert (list(headers), len(headers)) == (["content-type", "set-cookie"], 2)


async def test_neither_a_response_nor_its_headers_show_secrets() -> None:
    answer = response(set_cookie="s3cret")

    assert "sesame" not in repr(answer)
    assert "s3cret" not in repr(answer.headers)


CALLERS = {
    "Authorization": "Bearer s3cret",
    "Cookie": "a=b",
    "X-Api-Key": "s3cret",
    "Accept": "text/html",
    "Accept-Language": "de",
    "User-Agent": "mine",
    "Content-Type": "text/csv",
    "X-Trace": "1",
}


def asked(method: str = "GET", url: str = "https://api.example/a", content: bytes | None = None) -> Outgoing:
    return outgoing(method, url, CALLERS, content, None)


def wire(request: Outgoing) -> dict[str, str]:
    return {name.decode(): value.decode("latin-1") for name, value in request.wire_headers()}


def test_a_request_without_headers_has_a_user_agent_and_accept() -> None:
    request = outgoing("get", "https://api.example:8443/a?b", None, None, None)

    assert (request.method, request.target.path) == ("GET", "/a?b")
    assert wire(request) == {
        "host": "api.example:8443",
        "accept": "*/*",
        "accept-encoding": "gzip, deflate",
        "user-agent": "spindle",
    }


@pytest.mark.parametrize(
    ("content", "value", "data", "kind"),
    [
        (None, {"a": "ü", "b": None}, '{"a":"ü","b":null}'.encode(), "application/json"),
        (None, [], b"[]", "application/json"),
        ("tüxt", None, "tüxt".encode(), "text/plain; charset=utf-8"),
        (b"\0\1", None, b"\0\1", None),
        (bytearray(b"x"), None, b"x", None),
    ],
)
def test_a_body_is_written_with_its_kind(content: bytes | str | None, value: object, data: bytes, kind: str) -> None:
    request = outgoing("POST", "https://api.example/", None, content, value)

    assert request.content == data
    assert wire(request).get("content-type") == kind
    assert wire(request)["content-length"] == str(len(data))


def test_the_caller_may_name_the_kind_of_a_json_body() -> None:
    request = outgoing("POST", "https://api.example/", {"Content-Type": "application/ld+json"}, None, {})

    assert wire(request)["content-type"] == "application/ld+json"


def test_a_post_without_a_body_says_so() -> None:
    assert wire(outgoing("POST", "https://api.example/", None, None, None))["content-length"] == "0"


@pytest.mark.parametrize("method", ["CONNECT", "connect", "TRACE", "TRACK", "", "GE T", "GET\r\nX: y", "GÉT"])
def test_methods_that_are_not_for_tools_are_refused(method: str) -> None:
    with pytest.raises(CapabilityError) as caught:
        asked(method)

    assert caught.value.field == "method"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Host", "other.example"),
        ("content-length", "5"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "upgrade"),
        ("Upgrade", "websocket"),
        ("Expect", "100-continue"),
        ("TE", "trailers"),
        ("X\r\nY", "z"),
        ("X: Y", "z"),
        ("", "z"),
        ("X", "a\r\nHost: other.example"),
        ("X", "a\0b"),
        ("X", "a\nb"),
        ("X", "☃"),
    ],
)
def test_headers_that_steer_the_connection_are_refused(name: str, value: str) -> None:
    with pytest.raises(CapabilityError) as caught:
        outgoing("GET", "https://api.example/", {name: value}, None, None)

    assert caught.value.field == "headers"


def test_a_secret_that_was_not_revealed_is_refused_rather_than_sent_as_a_mask() -> None:
    headers: Any = {"Authorization": Secret("hunter22")}

    with pytest.raises(CapabilityError) as caught:
        outgoing("GET", "https://api.example/", headers, None, None)

    assert caught.value.field == "headers"
    assert "reveal()" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "value", "field"),
    [(b"", {}, "content"), (None, {1, 2}, "json"), (None, float("nan"), "json"), (5, None, "content")],
)
def test_bodies_that_cannot_be_sent_are_refused(content: bytes | None, value: object, field: str) -> None:
    with pytest.raises(CapabilityError) as caught:
        outgoing("POST", "https://api.example/", None, content, value)

    assert caught.value.field == field


@pytest.mark.parametrize(
    ("status", "method", "follows", "keeps_body"),
    [
        (301, "GET", "GET", False),
        (301, "POST", "GET", False),
        (302, "POST", "GET", False),
        (303, "POST", "GET", False),
        (303, "PUT", "GET", False),
        (303, "DELETE", "GET", False),
        (303, "HEAD", "HEAD", False),
        (301, "PUT", "PUT", True),
        (302, "DELETE", "DELETE", True),
        (307, "POST", "POST", True),
        (308, "POST", "POST", True),
        (307, "PUT", "PUT", True),
    ],
)
def test_a_redirect_changes_the_method_as_browsers_do(status: int, method: str, follows: str, keeps_body: bool) -> None:
    body = None if method in {"GET", "HEAD"} else b"a,b"

    following = redirected(asked(method, content=body), status, "/b")

    assert following.method == follows
    assert following.content == (b"a,b" if keeps_body else None)
    if body is not None:
        assert ("content-type" in wire(following)) is keeps_body
    assert wire(following)["authorization"] == "Bearer s3cret"


@pytest.mark.parametrize(
    "location",
    [
        "https://other.example/",
        "https://api.example:8443/",
        "http://api.example/",
        "//other.example/x",
        "https://api.example.evil.example/",
    ],
)
def test_across_origins_only_plain_headers_go_along(location: str) -> None:
    following = redirected(asked(), 302, location)

    assert {name for name, _ in following.headers} == {"accept", "accept-language", "user-agent", "content-type"}


@pytest.mark.parametrize("location", ["/b", "https://api.example/b", "https://API.example.:443/b"])
def test_within_an_origin_every_header_goes_along(location: str) -> None:
    assert redirected(asked(), 302, location).headers == asked().headers


def test_headers_that_were_dropped_do_not_come_back() -> None:
    away = redirected(asked(), 302, "https://other.example/")

    assert "authorization" not in wire(redirected(away, 302, "https://api.example/a"))


def test_a_body_is_not_sent_in_the_clear_after_a_redirect_from_https() -> None:
    with pytest.raises(CapabilityError):
        redirected(asked("POST", content=b"x"), 307, "http://api.example/a")
