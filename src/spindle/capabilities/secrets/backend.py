"""The secrets backend and its sources: a mapping, a function, the environment, a file or a keyring."""

import json
import os
import re
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import isawaitable, iscoroutinefunction
from pathlib import Path
from typing import Any, TypeAlias, cast

import anyio.to_thread

from spindle.addresses import parse_local_path
from spindle.capabilities.declare import CallScope, SecretCollector
from spindle.capabilities.secrets.secret import MAX_SECRET_CHARS, Redactor, Secret, may_read
from spindle.capabilities.withheld import OWN_FILES
from spindle.errors import CapabilityError, SecretError, UsageError
from spindle.json_types import JsonObject

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_NAME = re.compile(r"(?:export[ \t]+)?([^\s=#'\"]+)[ \t]*=[ \t]*")
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_BARE = re.compile(r"[^\n]*")
_AFTER = re.compile(r"[ \t]*(?:#[^\n]*)?\r?(?=\n|\Z)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\n": ""}


def parse_secrets(text: str, *, place: str) -> Mapping[str, str]:
    """Parse names and values: text that begins with `{` as JSON, any other as `KEY=value` lines.

    In lines, `'…'` is literal and `"…"` may contain escapes (`\\n`, `\\"`); both may span lines. An unquoted value
    ends at the end of the line or at ` #`. Variables are not substituted.

    Raises:
        SecretError: The text is neither; the message names the position, never the content.
    """
    return _parse_json(text, place) if text.lstrip().startswith("{") else _parse_lines(text, place)


def _parse_json(text: str, place: str) -> Mapping[str, str]:
    try:
        found: JsonObject = json.loads(text)  # the text begins with a brace
    except (ValueError, RecursionError) as error:
        where = f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "somewhere"
    else:
        return _check_values(found, place)
    # Raised outside the except block, because the parser's error carries the whole text.
    raise SecretError(f"the file {place} begins with '{{' but is not valid JSON: check {where}")


def _check_values(found: JsonObject, place: str) -> Mapping[str, str]:
    wrong = sorted(name for name, value in found.items() if not isinstance(value, str))
    if wrong:
        raise SecretError(
            f"the file {place} must map names to strings; these values are not strings: {', '.join(wrong)}"
        )
    return found


def _parse_lines(text: str, place: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    at = _skip(text, 0)
    while at < len(text):
        named = _NAME.match(text, at)
        value, end = (None, at) if named is None else _value(text, named.end())
        if named is None or value is None:
            line = text.count("\n", 0, at) + 1
            raise SecretError(f"the file {place} cannot be parsed at line {line}: expected KEY=value")
        found[named[1]] = value
        at = _skip(text, end)
    return found


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return at if blank is None else blank.end()


def _value(text: str, at: int) -> tuple[str | None, int]:
    for quoted in (_SINGLE, _DOUBLE):
        match = quoted.match(text, at)
        if match is not None:
            value = match[1] if quoted is _SINGLE else _ESCAPE.sub(lambda it: _ESCAPES.get(it[1], it[1]), match[1])
            after = _AFTER.match(text, match.end())
            return (None, at) if after is None else (value, after.end())
    if text[at : at + 1] in {"'", '"'}:
        return None, at  # an unclosed quote
    bare = _BARE.match(text, at)
    raw = "" if bare is None else bare[0]
    return re.split(r"(?:^|[ \t])#", raw, maxsplit=1)[0].strip(), at + len(raw)


Lookup: TypeAlias = Callable[[str], str | Awaitable[str | None] | None]
Source: TypeAlias = Mapping[str, str] | Lookup
"""A mapping of names to values, or a function from a name to its value or None; a sync function runs in a thread."""

MAX_FILE_BYTES = 1 << 20
_LONG_CHARS = 64


class SecretsBackend:
    """A backend that serves secrets from `source`, to each tool only those it declared.

    Raises:
        UsageError: `source` is neither a mapping nor a function.
    """

    def __init__(self, source: Source) -> None:
        self._names: Callable[[], Iterable[str]] | None = None
        if isinstance(source, Mapping):
            self._names = cast("Mapping[str, str]", source).keys
            self._look_up: Lookup = _from_mapping(cast("Mapping[str, str]", source))
        elif callable(source):
            self._look_up = source
        else:
            raise UsageError(
                f"secrets: expected a mapping or a function that takes a name, got {type(source).__name__}; "
                "from_env() and from_file(path) return such functions",
                field="secrets",
            )

    def lacking(self, need: Iterable[str]) -> list[str]:
        """Return the declared secrets that the mapping lacks; a function is not called, because it may be slow."""
        if self._names is None:
            return []
        known = [*self._names()]
        return [repr(entry) for entry in need if not any(may_read((entry,), name) for name in known)]

    def open(self, need: tuple[str, ...], scope: CallScope) -> "SecretsHandle":
        """Return the handle of one call."""
        redactor = Redactor() if scope.redactor is None else scope.redactor
        return SecretsHandle(self._look_up, declared=need, tool=scope.tool, redactor=redactor)


class SecretsHandle:
    """The secrets handle of one call, limited to the secrets its tool declared."""

    __slots__ = ("_declared", "_look_up", "_tool", "redactor")

    def __init__(self, look_up: Lookup, *, declared: tuple[str, ...], tool: str, redactor: SecretCollector) -> None:
        self._look_up = look_up
        self._declared = declared
        self._tool = tool
        self.redactor = redactor
        """Masks every value that was handed out."""

    async def get(self, name: str) -> Secret:
        """Return the secret called `name`; from now on its value is masked wherever it appears.

        Raises:
            CapabilityError: The tool did not declare the secret.
            SecretError: The secret is not set, is not usable text, or its source failed.
        """
        if not may_read(self._declared, name):
            # The message omits the name, which may itself contain a secret; the source is not called either.
            raise CapabilityError(
                "this tool did not declare the requested secret: add its name to "
                "capabilities=Capabilities(secrets=[…])",
                tool=self._tool,
                field="secrets",
            )
        text = self._check_value(name, await self._call_source(name))
        self.redactor.add(text)
        if len(text) > _LONG_CHARS:
            await anyio.to_thread.run_sync(self.redactor.prepare)
        return Secret(text, name=name)

    async def _call_source(self, name: str) -> object:
        try:
            return await _call_lookup(self._look_up, name)
        except SecretError as error:
            failure = str(error)
        except Exception as error:  # noqa: BLE001 - a source is user code
            failure = f"its source raised {type(error).__name__}; call the source directly to see why"
        # Raised outside the except block, so that it does not chain the source's error, which may contain a secret.
        raise SecretError(f"the secret {name!r} is not available: {failure}", secret=name, tool=self._tool)

    def _check_value(self, name: str, value: object) -> str:
        if isinstance(value, Secret):
            value = value.reveal()
        if not isinstance(value, str) or not value.strip():
            what = "is not set" if value is None or isinstance(value, str) else f"is {type(value).__name__}, not text"
            raise SecretError(
                f"the secret {name!r} {what}: set it in this program's secrets source",
                secret=name,
                tool=self._tool,
            )
        if len(value) > MAX_SECRET_CHARS:
            raise SecretError(
                f"the secret {name!r} has {len(value)} characters; at most {MAX_SECRET_CHARS} can be masked",
                secret=name,
                tool=self._tool,
            )
        return value


async def _call_lookup(look_up: Lookup, name: str) -> object:
    if iscoroutinefunction(look_up) or iscoroutinefunction(getattr(look_up, "__call__", None)):  # noqa: B004
        return await cast("Any", look_up)(name)
    # Wrapped in a tuple, because trio rejects a coroutine returned from a thread.
    [answer] = await anyio.to_thread.run_sync(lambda: (look_up(name),), abandon_on_cancel=True)
    return await answer if isawaitable(answer) else answer


def _from_mapping(values: Mapping[str, str]) -> Lookup:
    async def look_up(name: str) -> str | None:
        return values.get(name)

    return look_up


def from_env(prefix: str = "") -> Lookup:
    """Return a source that reads the secret `KEY` from the environment variable `<prefix>KEY` on each request."""
    return lambda name: os.environ.get(f"{prefix}{name}")


def from_keyring(service: str, get_password: Callable[[str, str], str | None]) -> Lookup:
    """Return a source that reads a keyring through a function such as `keyring.get_password`."""
    return lambda name: get_password(service, name)


def from_file(path: str | os.PathLike[str], *, private: bool = True) -> Lookup:
    """Return a source that reads a file of `KEY=value` lines or one JSON object; it is read again for each secret.

    With `private`, the file must be accessible only by its owner, which must be this user or root.

    Raises:
        SecretError: The file cannot be read, is not private, or has another format; the content is never shown.
    """
    place = parse_local_path(path)
    OWN_FILES.add(place)
    _read(place, private=private)  # fail during setup, not at the first call
    return lambda name: _read(place, private=private).get(name)


def _read(path: Path, *, private: bool) -> Mapping[str, str]:
    try:
        text = _read_text(path, private=private)
    except UnicodeDecodeError:
        problem = "it is not UTF-8 text"
    except OSError as error:
        problem = error.strerror or type(error).__name__
    else:
        return parse_secrets(text, place=str(path))
    raise SecretError(f"the file {path} cannot be read: {problem}")


def _read_text(path: Path, *, private: bool) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as file:
        _check_private(os.fstat(handle), path, private=private)
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise SecretError(
            f"the file {path} has more than {MAX_FILE_BYTES} bytes, which is too large for a secrets file"
        )
    return data.decode("utf-8-sig")


def _check_private(found: os.stat_result, path: Path, *, private: bool) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SecretError(f"{path} is not a regular file; secrets are read from regular files only")
    if not private or os.name != "posix":
        return
    if found.st_mode & 0o077:
        raise SecretError(
            f"the file {path} is accessible by others than its owner (mode {stat.S_IMODE(found.st_mode):03o}): "
            f"run chmod 600 on it, or pass private=False if that is intended"
        )
    if found.st_uid not in {0, os.geteuid()}:
        raise SecretError(
            f"the file {path} belongs to another user ({found.st_uid}); change its owner to the user of this process"
        )
