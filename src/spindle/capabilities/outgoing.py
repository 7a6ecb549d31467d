"""What is sent: a checked request, and what a redirect makes of it. No I/O."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spindle.capabilities.secrets import Secret
from spindle.capabilities.urls import Target, join_url, parse_url
from spindle.errors import CapabilityError

REDIRECTS = frozenset({301, 302, 303, 307, 308})
ACCEPTED_CODINGS = "gzip, deflate"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_FORBIDDEN_METHODS = {"CONNECT", "TRACE", "TRACK"}
# Who is asked and how the message is framed is not the caller's to say: a Host of its own would reach another site
# behind the same address.
_OWN_HEADERS = {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection"} | {
    "te",
    "trailer",
    "upgrade",
    "expect",
}
_PLAIN_HEADERS = {"accept", "accept-language", "user-agent", "content-type"}
_BODY_HEADERS = {"content-type", "content-encoding", "content-language", "content-location"}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request, as it goes over the wire."""

    method: str
    target: Target
    headers: tuple[tuple[str, str], ...]
    """What the caller set, names in lower case."""
    content: bytes | None

    def wire_headers(self) -> list[tuple[bytes, bytes]]:
        """Give the headers of the message."""
        set_by_caller = {name for name, _ in self.headers}
        lines = [("host", self.target.authority)]
        defaults = (("accept", "*/*"), ("accept-encoding", ACCEPTED_CODINGS), ("user-agent", "spindle"))
        lines += [line for line in defaults if line[0] not in set_by_caller]
        lines += self.headers
        if self.content is not None or self.method in {"POST", "PUT", "PATCH"}:
            lines.append(("content-length", str(len(self.content or b""))))
        return [(name.encode("ascii"), value.encode("latin-1")) for name, value in lines]


def outgoing(
    method: str, url: str, headers: Mapping[str, str] | None, content: bytes | str | None, json_value: Any
) -> Outgoing:
    """Check what a caller wants to send.

    Raises:
        CapabilityError: It cannot be sent.
    """
    method = str(method).upper()
    if not _TOKEN.fullmatch(method) or method in _FORBIDDEN_METHODS:
        raise CapabilityError(f"the method {method!r} cannot be sent; use GET, POST or the like", field="method")
    target = parse_url(url)
    lines = [_header(name, value) for name, value in (headers or {}).items()]
    data, kind = _body(content, json_value)
    if kind is not None and all(name != "content-type" for name, _ in lines):
        lines.append(("content-type", kind))
    return Outgoing(method, target, tuple(lines), data)


def redirected(sent: Outgoing, status: int, location: str) -> Outgoing:
    """Give the request that follows a redirect; its target is not judged yet.

    Raises:
        CapabilityError: The redirect leads to no URL that can be fetched, or would send a body in the clear.
    """
    target = join_url(sent.target, location)
    rewritten = (status in {301, 302} and sent.method == "POST") or (
        status == 303 and sent.method not in {"GET", "HEAD"}
    )
    following = replace(sent, target=target)
    if rewritten:
        following = replace(following, method="GET", content=None, headers=_without(sent.headers, _BODY_HEADERS))
    if target.origin != sent.target.origin:
        kept = tuple(line for line in following.headers if line[0] in _PLAIN_HEADERS)
        following = replace(following, headers=kept)
    if following.content is not None and (sent.target.scheme, target.scheme) == ("https", "http"):
        raise CapabilityError(
            f"{sent.target.host} redirects to http, which would send the body in the clear; ask the new place by https",
            field="url",
        )
    return following


def _without(headers: tuple[tuple[str, str], ...], names: set[str]) -> tuple[tuple[str, str], ...]:
    return tuple(line for line in headers if line[0] not in names)


def _header(name: str, value: object) -> tuple[str, str]:
    if isinstance(value, Secret):  # as text it is a mask, and that would be sent
        raise CapabilityError(
            f"the value of the header {name!r} is a Secret: give its reveal() where it belongs", field="headers"
        )
    name, text = str(name), str(value)
    if not _TOKEN.fullmatch(name) or name.lower() in _OWN_HEADERS:
        raise CapabilityError(f"the header {name!r} cannot be set; leave it out", field="headers")
    if not _VALUE.fullmatch(text):
        # Not the value itself: it may be a key.
        raise CapabilityError(f"the value of the header {name!r} has line breaks or other controls", field="headers")
    return name.lower(), text.strip(" \t")


def _body(content: bytes | str | None, json_value: Any) -> tuple[bytes | None, str | None]:
    if json_value is not None:
        if content is not None:
            raise CapabilityError("a request has either content or json; leave one out", field="content")
        try:
            text = json.dumps(json_value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            return text.encode(), "application/json"
        except (TypeError, ValueError, RecursionError) as error:
            raise CapabilityError(f"json: that value cannot be written as JSON: {error}", field="json") from error
    if isinstance(content, str):
        return content.encode(errors="replace"), "text/plain; charset=utf-8"
    if content is not None and not isinstance(content, (bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
        raise CapabilityError(f"content: expected bytes or text, got {type(content).__name__}", field="content")
    return (None if content is None else bytes(content)), None
