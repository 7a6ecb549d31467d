"""Reading pages and talking to APIs, on the network capability: `web_fetch` and `http_request`."""

import re
from typing import Annotated, Any, Literal

import anyio.to_thread
from pydantic import Field

from spindle.artifacts.markdown_artifact import MarkdownArtifact
from spindle.calls import Err, Ok
from spindle.capabilities.declare import Capabilities
from spindle.capabilities.network import Network, Response
from spindle.kit.html_pages import read_page
from spindle.kit.text_files import decoded
from spindle.tools.context import ToolContext
from spindle.tools.decorate import tool
from spindle.tools.problems import printable

ANY_HOST = Capabilities(network=["*"])
"""As far as the caller grants it."""

_ACCEPT = {"accept": "text/html,application/xhtml+xml,text/markdown,text/plain,application/json;q=0.9,*/*;q=0.5"}
_HTML_TYPES = ("text/html", "application/xhtml+xml")
_META_CHARSET = re.compile(rb"<meta\b[^<>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_SNIFFED_BYTES = 4_096
_EXCERPT_CHARS = 500
_RETRYABLE = (408, 425, 429, 500, 502, 503, 504)

Url = Annotated[str, Field(min_length=1, max_length=8_192)]


@tool(
    toolset="web",
    capabilities=ANY_HOST,
    artifact_constructor=MarkdownArtifact,
    read_only=True,
    idempotent=True,
    timeout_seconds=90,
    max_result_chars=40_000,
)
async def web_fetch(url: Url, *, ctx: ToolContext) -> Ok | Err:
    """Fetch a web page and give its text as Markdown, with absolute links. JSON and plain text are given as they are.

    Args:
        url: The whole address, such as "https://example.org/article".
    """
    network: Network = ctx.network
    response = await network.get(url, headers=_ACCEPT)
    data = await response.bytes()
    kind = _media_type(response)
    if response.status >= 400:
        return _failed(response, await _body_text(response, data, kind))
    facts: dict[str, Any] = {"url": response.url, "status": response.status, "content_type": kind, "title": None}
    if kind not in _HTML_TYPES and not (not kind and data.lstrip()[:1] == b"<"):
        text = await _body_text(response, data, kind)
        return _not_text(response, kind, data) if text is None else Ok(text, structured=facts)
    html = await _html_text(response, data)
    page = await anyio.to_thread.run_sync(read_page, html, response.url, abandon_on_cancel=True)
    cut = "\n[the page goes on; the rest is left out]\n" if page.is_cut else ""
    return _page(page.markdown + cut, facts | {"title": page.title}, room=ctx.result_budget_chars)


@tool(toolset="web", capabilities=ANY_HOST, timeout_seconds=90, max_result_chars=40_000)
async def http_request(
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
    url: Url,
    headers: dict[str, str] | None = None,
    body: str | dict[str, Any] | list[Any] | None = None,
    *,
    ctx: ToolContext,
) -> Ok:
    """Send an HTTP request, for example to an API, and give the status, the headers and the body of the answer.

    A status such as 404 is an answer too, not a failure of this tool.

    Args:
        method: What to do there.
        url: The whole address, such as "https://api.example.org/items?limit=5".
        headers: Headers to send, such as {"accept": "application/json"}.
        body: Text to send as it is, or an object or a list, which is sent as JSON.
    """
    network: Network = ctx.network
    is_text = isinstance(body, str)
    response = await network.request(
        method, url, headers=headers, content=body if is_text else None, json=None if is_text else body
    )
    return await answer_of(response)


async def answer_of(response: Response) -> Ok:
    """Give a whole answer, for the model as text and for programs by its parts."""
    data = await response.bytes()
    text = await _body_text(response, data, _media_type(response))
    shown_body = f"[{len(data)} bytes that are not text]" if text is None else text
    told = "\n".join(f"{name}: {printable(value, 2_000)}" for name, value in response.headers.items())
    facts = {"status": response.status, "url": response.url, "headers": dict(response.headers), "body": text}
    return Ok(f"HTTP {response.status}\n{told}\n\n{shown_body}", structured=facts)


def _media_type(response: Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _body_text(response: Response, data: bytes, kind: str) -> str | None:
    """Give a body as text, or `None` when it is something else."""
    if not data or "charset=" in response.headers.get("content-type", "").lower():
        return await response.text()
    if kind.startswith(("image/", "audio/", "video/", "font/")) and kind != "image/svg+xml":
        return None
    found = decoded(data)
    return None if found is None else found.text


async def _html_text(response: Response, data: bytes) -> str:
    """Give a page as text: in the charset of its headers, or else in the one it names itself."""
    if "charset=" in response.headers.get("content-type", "").lower():
        return await response.text()
    named = _META_CHARSET.search(data[:_SNIFFED_BYTES])
    found = decoded(data)
    if named is not None and (found is None or found.encoding == "latin-1"):
        try:
            return data.decode(named[1].decode("ascii"), "replace")
        except (LookupError, ValueError):  # no charset, or none for text
            pass
    return await response.text() if found is None else found.text


def _page(markdown: str, facts: dict[str, Any], *, room: int | None) -> Ok:
    """Give a page as an artifact; one that is too long to show becomes one in the spool, where it outlives memory."""
    fits = room is None or len(markdown) <= room
    return Ok(markdown, structured=facts, artifact=MarkdownArtifact.from_text(markdown) if fits else None)


def _failed(response: Response, text: str | None) -> Err:
    excerpt = f" It says: {printable(' '.join(text.split()), _EXCERPT_CHARS)}" if text and text.strip() else ""
    return Err(
        "execution_failed",
        f"{printable(response.url, _EXCERPT_CHARS)} answered with HTTP {response.status}.{excerpt}",
        field="url",
        retryable=response.status in _RETRYABLE,
    )


def _not_text(response: Response, kind: str, data: bytes) -> Err:
    what = kind or "of an unknown type"
    return Err(
        "execution_failed",
        f"{printable(response.url, _EXCERPT_CHARS)} is {printable(what, 100)}, {len(data)} bytes that are not text.",
        field="url",
    )
