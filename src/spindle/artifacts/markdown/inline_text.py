"""Plain text and titles of inline Markdown tokens, and detection of bare URLs.

This module needs the extra `markdown`.
"""

import re
from collections.abc import Iterator, Sequence

from markdown_it.token import Token

_BARE_URL = re.compile(r"(?<![\w/@])(?:https?://|www\.)[^\s<]+", re.IGNORECASE)


def get_title(token: Token) -> str | None:
    """Return the title of a link or an image."""
    title = token.attrs.get("title")
    return None if title is None else str(title)


def get_text(tokens: Sequence[Token]) -> str:
    """Return the text of inline tokens without markup."""
    parts: list[str] = []
    for token in tokens:
        match token.type:
            case "text" | "text_special" | "code_inline":
                parts.append(token.content)
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case "image":
                parts.append(get_text(token.children or []))
            case _:
                pass
    return "".join(parts)


def find_bare_urls(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield each bare URL in a text: its offset, its text as written, and the full URL."""
    for found in _BARE_URL.finditer(text):
        written = _strip_trailing_punctuation(found[0])
        yield found.start(), written, f"http://{written}" if written[:4].lower() == "www." else written


def _strip_trailing_punctuation(url: str) -> str:
    unopened, end = url.count(")") - url.count("("), len(url)
    while end and url[end - 1] in "?!.,:;*_~'\")":
        if url[end - 1] == ")":
            if unopened <= 0:
                break
            unopened -= 1
        end -= 1
    return url[:end]
