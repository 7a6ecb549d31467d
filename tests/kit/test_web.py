"""Pages and APIs of a real server on loopback."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle import MarkdownArtifact, Ok
from spindle.errors import HostNotAllowedError, NetworkError
from spindle.kit.web import MAX_HTML_CHARS, convert_page, remove_hidden_parts
from tests.bounds import bounded_cpu
from tests.capabilities.loopback import Request, Server, answer, redirect, serving
from tests.fuzzing import examples
from tests.kit.calling import Workshop

pytestmark = pytest.mark.anyio

Respond = Callable[[Request, socket.socket], bytes]


def giving(body: bytes, content_type: str = "text/html", status: str = "200 OK") -> Respond:
    return lambda request, connection: answer(status, body, content_type=content_type)


def workshop(root: Path) -> Workshop:
    return Workshop(root, hosts=["127.0.0.1"], private_addresses=["127.0.0.0/8"])


async def fetch(root: Path, respond: Respond) -> Ok:
    with serving(respond) as server:
        return await workshop(root).ok("web_fetch", url=f"{server.url}/docs/a")


async def test_a_page_is_given_as_markdown(tmp_path: Path) -> None:
    html = b"<title>T</title><h1>Hello</h1><p>A <a href='b'>link</a></p><script>x</script>"
    with serving(giving(html)) as server:
        result = await workshop(tmp_path).ok("web_fetch", url=f"{server.url}/docs/a")

    assert result.value == f"# Hello\n\nA [link]({server.url}/docs/b)\n"
    assert result.structured["title"] == "T"
    assert not result.trusted
    assert isinstance(result.artifact, MarkdownArtifact)
    assert [heading.text for heading in await result.artifact.headings()] == ["Hello"]


async def test_a_long_page_is_kept_whole_as_a_markdown_artifact(tmp_path: Path) -> None:
    html = b"".join(b"<h2>Part %d</h2><p>%s</p>" % (number, b"word " * 500) for number in range(40))

    result = await fetch(tmp_path, giving(html))

    assert isinstance(result.artifact, MarkdownArtifact)
    assert [heading.text for heading in await result.artifact.headings()] == [f"Part {n}" for n in range(40)]
    assert len(result.value) < 41_000


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (b'{"a": 1}', "application/json", '{"a": 1}'),
        (b"plain <b>", "text/plain", "plain <b>"),
        (b"# md", "text/markdown; charset=utf-8", "# md"),
        ("<p>größe</p>".encode("latin-1"), "text/html; charset=iso-8859-1", "größe\n"),
        (b'<meta charset="windows-1252"><p>\x80 5</p>', "text/html", "€ 5\n"),
        ("<p>größe</p>".encode(), "text/html", "größe\n"),
        (b'<meta charset="idna"><p>caf\xe9</p>', "text/html", "café\n"),
        (b"", "text/html", "\n"),
    ],
)
async def test_each_kind_of_text_is_read_in_its_way(tmp_path: Path, body: bytes, content_type: str, text: str) -> None:
    assert (await fetch(tmp_path, giving(body, content_type))).value == text


async def test_a_value_that_is_not_text_is_named_and_not_shown(tmp_path: Path) -> None:
    with serving(giving(b"\x89PNG\0\0", "image/png")) as server:
        error = await workshop(tmp_path).err("web_fetch", url=server.url)

    assert error.code == "execution_failed"
    assert "image/png" in error.error


@pytest.mark.parametrize(("status", "tries"), [("404 Not Found", 1), ("503 Busy", 3)])
async def test_a_failing_server_is_an_error_and_asked_again_where_that_helps(
    tmp_path: Path, status: str, tries: int
) -> None:
    with serving(giving(b"gone", "text/plain", status)) as server:
        error = await workshop(tmp_path).err("web_fetch", url=server.url)
        asked = len(server.requests)

    assert (error.code, error.retryable, asked) == ("execution_failed", tries > 1, tries)
    assert status[:3] in error.error


async def test_a_host_that_was_not_granted_is_not_reached(tmp_path: Path) -> None:
    with serving(giving(b"secret")) as server:
        for name, more in (("web_fetch", {}), ("http_request", {"method": "GET"})):
            strict = Workshop(tmp_path, hosts=["example.test"], private_addresses=["127.0.0.0/8"])
            error = await strict.err(name, url=server.url, **more)
            assert isinstance(error.cause, HostNotAllowedError)
        assert not server.requests


async def test_a_redirect_out_of_reach_is_not_followed(tmp_path: Path) -> None:
    with serving(redirect("http://169.254.169.254/latest")) as server:
        error = await workshop(tmp_path).err("web_fetch", url=server.url)

    assert isinstance(error.cause, HostNotAllowedError)


async def test_a_question_without_a_listener_is_an_error(tmp_path: Path) -> None:
    with serving(giving(b"")) as server:
        url = server.url

    assert isinstance((await workshop(tmp_path).err("web_fetch", url=url)).cause, NetworkError)


def echo(request: Request, connection: socket.socket) -> bytes:
    return answer("201 Created", request.body, content_type="application/json", x_seen=request.headers.get("x-a", ""))


async def ask(server: Server, root: Path, **args: object) -> Ok:
    return await workshop(root).ok("http_request", url=f"{server.url}/items", **args)


async def test_an_api_is_asked_with_json_text_and_headers(tmp_path: Path) -> None:
    with serving(echo) as server:
        sent = await ask(server, tmp_path, method="POST", headers={"X-A": "1"}, body={"name": "größe"})
        text = await ask(server, tmp_path, method="PUT", body="as it is")

    assert sent.structured["status"] == 201
    assert sent.structured["headers"]["x-seen"] == "1"
    assert server.requests[0].headers["content-type"] == "application/json"
    assert sent.value.startswith("HTTP 201\n")
    assert "größe" in sent.value
    assert text.value.endswith("\n\nas it is")
    assert [request.method for request in server.requests] == ["POST", "PUT"]


async def test_a_refusal_of_an_api_is_an_answer(tmp_path: Path) -> None:
    with serving(giving(b'{"error": "no"}', "application/json", "403 Forbidden")) as server:
        result = await ask(server, tmp_path, method="DELETE")

    assert (result.structured["status"], result.structured["body"]) == (403, '{"error": "no"}')


async def test_bytes_of_an_api_are_counted_and_not_shown(tmp_path: Path) -> None:
    with serving(giving(b"\0\1\2", "application/octet-stream")) as server:
        result = await ask(server, tmp_path, method="GET")

    assert result.value.endswith("[3 bytes that are not text]")
    assert result.structured["body"] is None


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "get\r\nx: y"])
async def test_other_methods_are_refused(tmp_path: Path, method: str) -> None:
    error = await workshop(tmp_path).err("http_request", method=method, url="http://127.0.0.1/")

    assert (error.code, error.field) == ("input_invalid", "method")


URL = "https://example.test/docs/page.html"


def markdown(html: str) -> str:
    return convert_page(html, URL).markdown


def test_a_page_becomes_markdown() -> None:
    page = convert_page(
        """<!doctype html><html><head><title>A &amp; B</title><style>x{}</style></head><body><nav>menu</nav>
        <h1>Title</h1><p>Some <b>bold</b> text, a <a href="../x?q=1">link</a>.</p>
        <ul><li>one</li><li>two</li></ul><pre><code class="language-py">x = 1\n  y</code></pre>
        <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
        <img src="/i.png" alt="a picture"><footer>imprint</footer></body></html>""",
        URL,
    )

    assert page.title == "A & B"
    for part in (
        "# Title",
        "Some **bold** text, a [link](https://example.test/x?q=1).",
        "- one\n- two",
        "```py\nx = 1\n  y\n```",
        "| a | b |",
        "![a picture](https://example.test/i.png)",
    ):
        assert part in page.markdown
    assert "menu" not in page.markdown
    assert "imprint" not in page.markdown


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>HIDDEN</script>",
        "<SCRIPT type=x>HIDDEN</SCRIPT >",
        "<style>HIDDEN</style>",
        "<!-- HIDDEN -->",
        "<template>HIDDEN</template>",
        "<noscript>HIDDEN</noscript>",
        "<p hidden>HIDDEN</p>",
        '<p style="color: red; Display : none">HIDDEN</p>',
        '<div aria-hidden="true"><p>HIDDEN</p></div>',
        '<a href="javascript:HIDDEN()">shown</a>',
        '<img src="data:image/png;base64,HIDDEN">',
        "<iframe src='x'>HIDDEN</iframe>",
        "<form><input value=HIDDEN></form>",
    ],
)
def test_hidden_html_is_left_out(hidden: str) -> None:
    text = markdown(f"<p>before</p>{hidden}<p>after</p>")

    assert "before" in text
    assert "after" in text
    assert "HIDDEN" not in text


HOSTILE = {
    "deep": "<div>" * 100_000 + "x",
    "a little deep": "<ul><li>" * 20_000 + "x",
    "comments": "<!--" * 200_000,
    "declarations": "<!x" * 200_000,
    "cdata": "<![CDATA[" * 100_000,
    "unfinished tags": "<title " * 50_000,
    "open quotes": '<a "' * 50_000,
    "half ends": "</a" * 50_000,
    "angles": "<" * 900_000,
    "entities": "&" * 900_000,
    "numbers": "&#" * 400_000,
    "blanks": " " * 900_000 + "x",
    "blank lines": "<pre>" + "\n" * 900_000,
    "scripts": "<script>" * 100_000,
    "long link": f'<a href="{"x" * 900_000}">y</a>',
    "bad links": '<a href="http://[">y</a>' * 1_000,
    "rows": "<table>" + "<tr><td>a" * 20_000,
}


LONG = {"rows", "a little deep", "angles"}
"""About a second each."""


@pytest.mark.parametrize(
    "html",
    [pytest.param(html, id=name, marks=[pytest.mark.slow] if name in LONG else []) for name, html in HOSTILE.items()],
)
def test_a_hostile_page_ends_soon(html: str) -> None:
    with bounded_cpu(30):
        markdown(html)


def test_a_page_without_end_is_cut_and_says_so() -> None:
    page = convert_page("<p>" + "word " * MAX_HTML_CHARS, URL)

    assert page.is_cut
    assert len(page.markdown) <= MAX_HTML_CHARS


def test_an_unclosed_head_hides_nothing() -> None:
    page = convert_page(
        "<html><head><title>T</title><meta charset=utf-8><body><p>text<svg><text>HIDDEN</text></svg>", URL
    )

    assert (page.title, page.markdown) == ("T", "text\n")


def test_a_page_nested_too_deep_still_gives_its_text() -> None:
    assert markdown("<div>" * 5_000 + "the text" + "</div>" * 5_000) == "the text\n"


@settings(max_examples=examples(200))
@given(st.text("<>/!-=\"' &;#abipscrt", max_size=80))
def test_any_text_is_a_page(html: str) -> None:
    assert markdown(html).endswith("\n")


@given(st.text("<>!-/script İ", max_size=60))
def test_removing_hidden_parts_adds_nothing(html: str) -> None:
    kept = remove_hidden_parts(html)

    assert "<!--" not in kept or "<!--" in html
    assert len(kept) <= len(html)
