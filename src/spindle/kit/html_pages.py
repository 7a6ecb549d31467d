"""A web page as Markdown, whatever the page is made of; needs the extra `kit`."""

import re
from dataclasses import dataclass
from html import unescape
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

from spindle.extras import needs_extra

MAX_HTML_CHARS = 1_000_000
"""What is parsed of a page, once scripts, styles and comments are out."""
MAX_MARKS = 60_000
"""Tags and entities; a page with more is read as plain text, which costs a hundredth."""

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
    """What a page says."""

    markdown: str
    title: str | None
    is_cut: bool = False


def read_page(html: str, url: str) -> Page:
    """Convert a page; its links are made absolute, and what a browser would hide is left out.

    Raises:
        MissingExtraError: The packages are not there.
    """
    with needs_extra("kit"):
        import bs4  # noqa: PLC0415 - an extra
        import markdownify  # noqa: PLC0415 - an extra
    title = _TITLE.search(html)
    body = without_hidden_parts(html)
    # Parser and converter take time that grows with the square of a run of blanks, and of tags without an end.
    body = _LONG_RUNS.sub(_shorter, body)
    is_cut = len(body) > MAX_HTML_CHARS
    body = _UNFINISHED.sub("&lt;", body[:MAX_HTML_CHARS])
    text = None
    if body.count("<") + body.count("&") <= MAX_MARKS:
        try:
            soup = bs4.BeautifulSoup(body, "html.parser")
            _clean(soup, url)
            text = (
                cast("Any", markdownify)
                .MarkdownConverter(heading_style="ATX", bullets="-", code_language_callback=_language)
                .convert_soup(soup)
            )
        except (RecursionError, ValueError, AssertionError):  # nested without end, or broken beyond the parser
            text = None
    markdown = plain_text(body) if text is None else cast("str", text)
    return Page(_tidy(markdown), " ".join(unescape(title[1]).split()) or None if title else None, is_cut)


def without_hidden_parts(html: str) -> str:
    """Take out comments, declarations, scripts, styles and the title, in one pass over the page."""
    kept: list[str] = []
    lowered = html.lower() if html.isascii() else _lowered(html)
    at = 0
    while (opener := _OPENERS.search(html, at)) is not None:
        kept.append(html[at : opener.start()])
        comment, declaration, element = opener.groups()
        end = "-->" if comment else ">" if declaration else f"</{element.lower()}"
        closed = lowered.find(end, opener.end())
        if closed < 0:  # as in a browser, it swallows the rest
            return "".join(kept)
        at = closed + len(end)
        if element:
            at = lowered.find(">", at) + 1 or len(html)
    return "".join([*kept, html[at:]])


def plain_text(html: str) -> str:
    """Give the text of a page without its tags."""
    return unescape(_TAG.sub(" ", _BREAKING.sub("\n", html)))


def _shorter(run: re.Match[str]) -> str:
    return "\n\n" if "\n" in run[0] else " "


def _lowered(html: str) -> str:
    """Lower the letters of tags, and nothing whose length would change with it."""
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
    """Give a web address as seen from `url`; `None` for scripts, inline data and what is no address."""
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
