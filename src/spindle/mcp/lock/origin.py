"""Where a server comes from, for the lock file: its command or URL, without secrets."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

from spindle.json_types import JsonObject
from spindle.text import MASK

_SECRET_NAME = re.compile(r"key|token|secret|passw|credential|auth|cookie|session", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"\b(?:sk|pk|rk|gh[opsur]|github_pat|glpat|xox[abprs]|AKIA|ASIA|AIza|ya29|eyJ)[-_A-Za-z0-9.]{12,}"
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_VARIABLE = re.compile(r"\$\{[^}]*\}")


def describe_origin(*, command: str | None = None, args: Sequence[str] = (), url: str | None = None) -> JsonObject:
    """Return the command line or the URL of a server; passwords, tokens and query values are masked.

    Variables written as `${NAME}` stay as they are, so that the origin is the same on every machine.
    """
    if url is not None:
        return {"url": _mask_url(url)}
    words = [command or "", *args]
    return {"command": [_mask_word(before, word) for before, word in zip(["", *words], words, strict=False)]}


def _mask_word(before: str, word: str) -> str:
    if before.startswith("-") and "=" not in before and _SECRET_NAME.search(before) and not word.startswith("-"):
        return _keep_variables(word)
    name, equals, value = word.partition("=")
    if equals and _SECRET_NAME.search(name):
        return f"{name}={_keep_variables(value)}"
    return _SECRET_VALUE.sub(MASK, _URL.sub(lambda found: _mask_url(found[0]), word))


def _keep_variables(value: str) -> str:
    return value if value and not _VARIABLE.sub("", value) else MASK


def _mask_url(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    host = parts.netloc.rpartition("@")[2]
    query = "&".join(
        f"{name}{equals}{_keep_variables(value) if equals else ''}"
        for name, equals, value in (pair.partition("=") for pair in parts.query.split("&"))
    )
    return _SECRET_VALUE.sub(MASK, urlunsplit((parts.scheme, host, parts.path, query, "")))
