"""Tokens and passwords in a line of text, masked by their looks: the last guard, where nobody knows which they are."""

import re
from typing import Final

from spindle.tools.masking import MASK

_NAMES = (
    r"passw(?:or)?d|passphrase|secret|token|api[_\-]?key|access[_\-]?key|private[_\-]?key|credentials?"
    r"|authorization|cookie"
)
_VALUE = r"""(?:"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s,;&"'}\]]+)"""

_PATTERNS: Final = (
    # Headers, to the end of their line.
    (re.compile(r"\b(authorization|cookie)([ \t]{0,4}:[ \t]{0,4})[^\s\"'][^\r\n\"']*", re.IGNORECASE), rf"\1\2{MASK}"),
    (re.compile(r"\b(bearer[ \t]+)[\w.~+/=\-]{4,}", re.IGNORECASE), rf"\1{MASK}"),
    # Unlike bearers, basic things are often spoken of; what follows must not be a plain word.
    (re.compile(r"\b(basic[ \t]+)(?=[A-Za-z]{0,64}[\d=+/])[\w+/=]{6,}", re.IGNORECASE), rf"\1{MASK}"),
    # name=value and "name": "value", for names that speak for themselves; JSON in JSON has a backslash more.
    (re.compile(rf"""((?:{_NAMES})\\?["']?\s{{0,4}}[:=]\s{{0,4}}\\?){_VALUE}""", re.IGNORECASE), rf"\1{MASK}"),
    # user:password@ in an address.
    (re.compile(r"(://[^\s/:@]{0,256}:)[^\s/@]{1,512}(@)"), rf"\1{MASK}\2"),
    # Keys whose makers gave them a beginning, and JSON Web Tokens.
    (re.compile(r"\b(?:sk|pk|rk|ghp|gho|ghu|ghs|ghr|glpat|xox[abprs])[-_][\w\-]{8,}"), MASK),
    (re.compile(r"\bgithub_pat_\w{8,}|\bAKIA[0-9A-Z]{12,}|\bAIza[\w\-]{20,}"), MASK),
    (re.compile(r"\beyJ[\w\-]{4,}\.[\w\-]{4,}\.[\w\-]*"), MASK),
)


def masked_text(text: str, max_chars: int) -> str:
    """Give a text, shortened, without what looks like a token or a password."""
    # A little more than is shown, so that a token at the edge is seen whole.
    seen = text[: max_chars + 1_024]
    for pattern, instead in _PATTERNS:
        seen = pattern.sub(instead, seen)
    return seen if len(seen) <= max_chars else f"{seen[:max_chars]}…"
