"""The tools `web_fetch` and `http_request`, on the network capability, and the conversion of HTML to Markdown."""

import re
from dataclasses import dataclass
from html import unescape
from typing import Annotated, Any, Literal
from urllib.parse import urljoin, urlsplit

import anyio.to_thread
from pydantic import Field

from spindle.artifacts.markdown.artifact import MarkdownArtifact
from spindle.calls import Err, Ok
from spindle.capabilities.declare import Capabilities
from spindle.capabilities.network.handle import Response
from spindle.extras import needs_extra
from spindle.json_types import JsonObject, JsonValue
from spindle.kit.files import decode_text
from spindle.text import to_line, to_printable
from spindle.tools.context import ToolContext
from spindle.tools.declaration import tool
from spindle.trust.flow.roles import Content, Setting, Target

MAX_HTML_CHARS = 1_000_000
"""Limit of the HTML to parse, after scripts, styles and comments are removed."""
MAX_MARKS = 60_000
"""Limit of tags and entities; a page with more is converted to plain text, which is a hundred times cheaper."""

_OPENERS = re.compile(r"<(?:(!--)|(!|\?)|(script|style|title|noscript|iframe)\b)", re.IGNORECASE)
_TITLE = re.compile(r"<title\b[^<>]{0,200}>([^<]{0,1000})", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_BREAKING = re.compile(
    r"</?(?:p|div|br|li|ul|ol|tr|table|h[1-6]|section|article|pre|blockquote)\b[^<>]*>", re.IGNORECASE
)
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*){2,}")
_UNFINISHED = re.compile(r"<(?=[^<>]*(?:<|$))")
_LONG_RUNS = re.compile(r"(\s)\s{100,}")
_HIDING = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_LEFT_OUT = ["svg", "template", "nav", "footer", "form", "button", "input", "select", "textarea", "dialog"]
_LANGUAGE = re.compile(r"(?:language|lang|highlight-source)-([\w+#-]{1,30})$")


@dataclass(frozen=True, slots=True)
class Page:
    """The converted content of a page."""

    markdown: str
    title: str | None
    is_cut: bool = False


def convert_page(html: str, url: str) -> Page:
    """Convert a page to Markdown with absolute links; elements that a browser hides are removed.

    Raises:
        MissingExtraError: The extra `kit` is not installed.
    """
    with needs_extra("kit"):
        import bs4  # noqa: PLC0415 - an extra
        import markdownify  # noqa: PLC0415 - an extra
    title = _TITLE.search(html)
    body = remove_hidden_parts(html)
    # Parser and converter take quadratic time for long runs of whitespace and for unclosed tags.
    body = _LONG_RUNS.sub(_shorter, body)
    is_cut = len(body) > MAX_HTML_CHARS
    body = _UNFINISHED.sub("&lt;", body[:MAX_HTML_CHARS])
    text: str | None = None
    if body.count("<") + body.count("&") <= MAX_MARKS:
        try:
            soup = bs4.BeautifulSoup(body, "html.parser")
            _clean(soup, url)
            convert: Any = markdownify.MarkdownConverter
            text = convert(heading_style="ATX", bullets="-", code_language_callback=_language).convert_soup(soup)
        except (RecursionError, ValueError, AssertionError):  # nested too deeply, or too malformed for the parser
            text = None
    markdown = strip_tags(body) if text is None else text
    return Page(_tidy(markdown), " ".join(unescape(title[1]).split()) or None if title else None, is_cut)


def remove_hidden_parts(html: str) -> str:
    """Remove comments, declarations, scripts, styles and the title in one pass."""
    kept: list[str] = []
    lowered = html.lower() if html.isascii() else _lowercase(html)
    at = 0
    while (opener := _OPENERS.search(html, at)) is not None:
        kept.append(html[at : opener.start()])
        comment, declaration, element = opener.groups()
        end = "-->" if comment else ">" if declaration else f"</{element.lower()}"
        closed = lowered.find(end, opener.end())
        if closed < 0:  # as in a browser, an unclosed element hides the rest
            return "".join(kept)
        at = closed + len(end)
        if element:
            at = lowered.find(">", at) + 1 or len(html)
    return "".join([*kept, html[at:]])


def strip_tags(html: str) -> str:
    """Return the text of a page without its tags."""
    return unescape(_TAG.sub(" ", _BREAKING.sub("\n", html)))


def _shorter(run: re.Match[str]) -> str:
    return "\n\n" if "\n" in run[0] else " "


def _lowercase(html: str) -> str:
    """Lowercase ASCII letters only, so that the length does not change."""
    return html.translate({code: code + 32 for code in range(ord("A"), ord("Z") + 1)})


def _clean(soup: Any, url: str) -> None:
    for element in soup.find_all(_LEFT_OUT) + soup.find_all(_is_hidden):
        if not element.decomposed:
            element.decompose()
    for name, attribute in (("a", "href"), ("img", "src")):
        for element in soup.find_all(name):
            address = _absolute(str(element.get(attribute) or ""), url)
            if address is not None:
                element[attribute] = address
            elif name == "img":
                element.replace_with(str(element.get("alt") or ""))
            else:
                del element[attribute]


def _is_hidden(element: Any) -> bool:
    return (
        element.has_attr("hidden")
        or element.get("aria-hidden") == "true"
        or _HIDING.search(str(element.get("style") or "")) is not None
    )


def _absolute(address: str, url: str) -> str | None:
    """Resolve an address against `url`; `None` unless the result is an http or https URL."""
    try:
        joined = urljoin(url, address.strip())
        return joined if address.strip() and urlsplit(joined).scheme in ("http", "https") else None
    except ValueError:
        return None


def _language(element: Any) -> str:
    candidates = [element, *element.find_all("code", limit=1)]
    for candidate in candidates:
        for name in candidate.get("class") or ():
            found = _LANGUAGE.match(str(name))
            if found:
                return found[1]
    return ""


def _tidy(text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.replace("\r\n", "\n").split("\n"))
    return _BLANK_LINES.sub("\n\n", lines).strip() + "\n"


ANY_HOST = Capabilities(network=["*"])
"""Every host that the caller grants."""

_ACCEPT = {"accept": "text/html,application/xhtml+xml,text/markdown,text/plain,application/json;q=0.9,*/*;q=0.5"}
_HTML_TYPES = ("text/html", "application/xhtml+xml")
_META_CHARSET = re.compile(rb"<meta\b[^<>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_SNIFFED_BYTES = 4_096
_EXCERPT_CHARS = 500
_RETRYABLE = (408, 425, 429, 500, 502, 503, 504)

Url = Annotated[str, Field(min_length=1, max_length=8_192), Target()]


@tool(
    toolset="web",
    capabilities=ANY_HOST,
    artifact_constructor=MarkdownArtifact,
    output="third-party-public",
    read_only=True,
    idempotent=True,
    timeout_seconds=90,
    max_result_chars=40_000,
)
async def web_fetch(url: Url, *, ctx: ToolContext) -> Ok | Err:
    """Fetch a web page and return its text as Markdown, with absolute links. JSON and plain text are returned as is.

    Args:
        url: The full URL, such as "https://example.org/article".
    """
    network = ctx.network
    response = await network.get(url, headers=_ACCEPT)
    data = await response.bytes()
    kind = _media_type(response)
    if response.status >= 400:
        return _build_err(response, await _decode_body(response, data, kind))
    facts: JsonObject = {"url": response.url, "status": response.status, "content_type": kind, "title": None}
    if kind not in _HTML_TYPES and not (not kind and data.lstrip()[:1] == b"<"):
        text = await _decode_body(response, data, kind)
        return _not_text(response, kind, data) if text is None else Ok(text, structured=facts)
    html = await _html_text(response, data)
    page = await anyio.to_thread.run_sync(convert_page, html, response.url, abandon_on_cancel=True)
    cut = "\n[the page is longer; the rest is left out]\n" if page.is_cut else ""
    return _build_page_result(page.markdown + cut, facts | {"title": page.title}, room=ctx.result_budget_chars)


@tool(toolset="web", capabilities=ANY_HOST, timeout_seconds=90, max_result_chars=40_000)
async def http_request(
    method: Annotated[Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"], Setting()],
    url: Url,
    headers: Annotated[dict[str, str] | None, Content()] = None,
    body: Annotated[str | JsonObject | list[JsonValue] | None, Content()] = None,
    *,
    ctx: ToolContext,
) -> Ok:
    """Send an HTTP request, for example to an API, and return the status, the headers and the body of the response.

    A status such as 404 is a response too, not a failure of this tool.

    Args:
        method: The HTTP method.
        url: The full URL, such as "https://api.example.org/items?limit=5".
        headers: Headers to send, such as {"accept": "application/json"}.
        body: Text to send as is, or an object or a list, which is sent as JSON.
    """
    network = ctx.network
    is_text = isinstance(body, str)
    response = await network.request(
        method, url, headers=headers, content=body if is_text else None, json=None if is_text else body
    )
    return await build_response_result(response)


async def build_response_result(response: Response) -> Ok:
    """Return a full response as text for the model, and as structured data for programs."""
    data = await response.bytes()
    text = await _decode_body(response, data, _media_type(response))
    shown_body = f"[{len(data)} bytes that are not text]" if text is None else text
    headers_text = "\n".join(f"{name}: {to_printable(value, 2_000)}" for name, value in response.headers.items())
    facts = {"status": response.status, "url": response.url, "headers": dict(response.headers), "body": text}
    return Ok(f"HTTP {response.status}\n{headers_text}\n\n{shown_body}", structured=facts)


def _media_type(response: Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _decode_body(response: Response, data: bytes, kind: str) -> str | None:
    """Return a body as text, or `None` if it is not text."""
    if not data or "charset=" in response.headers.get("content-type", "").lower():
        return await response.text()
    if kind.startswith(("image/", "audio/", "video/", "font/")) and kind != "image/svg+xml":
        return None
    found = decode_text(data)
    return None if found is None else found.text


async def _html_text(response: Response, data: bytes) -> str:
    """Decode a page with the charset of its headers, otherwise with the one it declares itself."""
    if "charset=" in response.headers.get("content-type", "").lower():
        return await response.text()
    named = _META_CHARSET.search(data[:_SNIFFED_BYTES])
    found = decode_text(data)
    if named is not None and (found is None or found.encoding == "latin-1"):
        try:
            return data.decode(named[1].decode("ascii"), "replace")
        except (LookupError, ValueError):  # unknown, or not a text encoding
            pass
    return await response.text() if found is None else found.text


def _build_page_result(markdown: str, facts: JsonObject, *, room: int | None) -> Ok:
    """Return a page with an artifact; a page over `room` gets none here, since it will be spooled."""
    fits = room is None or len(markdown) <= room
    return Ok(markdown, structured=facts, artifact=MarkdownArtifact.from_text(markdown) if fits else None)


def _build_err(response: Response, text: str | None) -> Err:
    excerpt = f" The body says: {to_printable(to_line(text), _EXCERPT_CHARS)}" if text and text.strip() else ""
    return Err(
        "execution_failed",
        f"{to_printable(response.url, _EXCERPT_CHARS)} answered with HTTP {response.status}.{excerpt}",
        field="url",
        retryable=response.status in _RETRYABLE,
    )


def _not_text(response: Response, kind: str, data: bytes) -> Err:
    what = kind or "of an unknown type"
    return Err(
        "execution_failed",
        f"{to_printable(response.url, _EXCERPT_CHARS)} is {to_printable(what, 100)}, "
        f"{len(data)} bytes that are not text.",
        field="url",
    )
