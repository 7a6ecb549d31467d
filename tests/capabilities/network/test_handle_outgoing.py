from typing import Any

import pytest

from spindle.capabilities.network.handle import Outgoing, outgoing, redirected
from spindle.capabilities.secrets.secret import Secret
from spindle.errors import CapabilityError

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


def test_a_request_without_headers_says_who_asks_and_what_it_takes() -> None:
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
