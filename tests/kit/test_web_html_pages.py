"""Pages as Markdown, friendly and hostile ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.kit.web import MAX_HTML_CHARS, convert_page, remove_hidden_parts
from tests.bounds import bounded_cpu
from tests.fuzzing import examples

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
def test_what_a_reader_would_not_see_is_left_out(hidden: str) -> None:
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


@pytest.mark.parametrize("html", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_page_ends_soon(html: str) -> None:
    with bounded_cpu(30):
        markdown(html)


def test_a_page_without_end_is_cut_and_says_so() -> None:
    page = convert_page("<p>" + "word " * MAX_HTML_CHARS, URL)

    assert page.is_cut
    assert len(page.markdown) <= MAX_HTML_CHARS


def test_a_head_that_nobody_closed_hides_nothing() -> None:
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
def test_what_is_left_was_there_before(html: str) -> None:
    kept = remove_hidden_parts(html)

    assert "<!--" not in kept or "<!--" in html
    assert len(kept) <= len(html)
