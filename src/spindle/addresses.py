"""Paths and URLs that users configure: refuse a URL where a path is expected, and show URLs without credentials."""

import re
from os import PathLike, fspath
from pathlib import Path
from urllib.parse import SplitResult, quote, urlsplit

from spindle.errors.usage import UsageError

# One slash is enough: `Path` removes the second one. A single letter is a Windows drive.
_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+):/")
_INSTEAD = {
    "postgres": "use Journal.postgres(url), or `url` under [journal]",
    "postgresql": "use Journal.postgres(url), or `url` under [journal]",
    "redis": "use StorageBackend.redis(url), or `url` under [storage]",
    "rediss": "use StorageBackend.redis(url), or `url` under [storage]",
    "s3": "use Spool.objects(url), or `url` under [spool]",
    "gs": "use Spool.objects(url), or `url` under [spool]",
    "az": "use Spool.objects(url), or `url` under [spool]",
    "file": "pass the path alone",
    "sqlite": "pass the path alone",
}


def get_scheme(text: str) -> str | None:
    """Return the scheme of a URL in lower case, or `None` if the text is not a URL."""
    found = _SCHEME.match(text)
    return None if found is None else found[1].lower()


def refuse_url(path: str | PathLike[str], *, field: str = "path") -> None:
    """Check that a path is not a URL; the error never repeats it, because it may contain a password.

    Raises:
        UsageError: It is a URL.
    """
    scheme = get_scheme(str(fspath(path)))
    if scheme is not None:
        advice = _INSTEAD.get(scheme, "pass a path on this machine")
        raise UsageError(f"Expected a path, got a URL with the scheme {scheme!r}; {advice}", field=field)


def parse_local_path(path: str | PathLike[str], *, field: str = "path") -> Path:
    """Return an absolute path.

    Raises:
        UsageError: It is a URL.
    """
    refuse_url(path, field=field)
    return Path(path).absolute()


def hide_credentials(url: str) -> str:
    """Return a URL without user, password and query, for messages."""
    parts = _split(url)
    return "(invalid URL)" if parts is None else f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def mask_password(text: str) -> str:
    """Return a URL with its password masked; other texts, and a password from `${NAME}`, are returned unchanged."""
    parts = _split(text) if get_scheme(text) is not None else None
    login, _, host = parts.netloc.rpartition("@") if parts is not None else ("", "", "")
    user, _, password = login.partition(":")
    if parts is None or not password or "${" in password:
        return text
    return parts._replace(netloc=f"{user}:***@{host}").geturl()


def has_password(url: str) -> bool:
    """Return whether a URL contains a password."""
    parts = _split(url)
    return parts is not None and ":" in parts.netloc.rpartition("@")[0]


def add_password(url: str, password: str) -> str:
    """Return a URL with a password, in place of an earlier one."""
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    user = login.partition(":")[0]
    return parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}").geturl()


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None
