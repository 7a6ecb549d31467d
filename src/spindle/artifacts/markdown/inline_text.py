"""Plain text and titles of inline Markdown tokens, and detection of bare URLs.

This module needs the extra `markdown`.
"""

import re
from collections.abc import Iterator, Sequence

from markdown_it.token import Token

_BARE_URL = re.compile(r"(?<![\w/@])(?:https?://|www\.)[^\s<]+", re.IGNORECASE)


def title_of(token: Token) -> str | None:
    """Return the title of a link or an image."""
    title = token.attrs.get("title")
    return None if title is None else str(title)


def text_of(tokens: Sequence[Token]) -> str:
    """Return the text of inline tokens without markup."""
    parts: list[str] = []
    for token in tokens:
        match token.type:
            case "text" | "text_special" | "code_inline":
                parts.append(token.content)
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case "image":
                parts.append(text_of(token.children or []))
            case _:
                pass
    return "".join(parts)


def bare_addresses(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield each bare URL in a text: its offset, its text as written, and the full URL."""
    for found in _BARE_URL.finditer(text):
        written = _without_trailing_marks(found[0])
        yield found.start(), written, f"http://{written}" if written[:4].lower() == "www." else written


def _without_trailing_marks(url: str) -> str:
    unopened, end = url.count(")") - url.count("("), len(url)
    while end and url[end - 1] in "?!.,:;*_~'\")":
        if url[end - 1] == ")":
            if unopened <= 0:
                break
            unopened -= 1
        end -= 1
    return url[:end]
