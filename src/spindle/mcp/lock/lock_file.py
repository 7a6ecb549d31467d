"""The format of `spindle.lock`: JSON with sorted keys, one entry for a definition, hidden characters escaped."""

import json
import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from spindle.errors import InvalidLockError
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.mcp.lock.definitions import KINDS, DefinitionKind, LockedDefinition, read_definition
from spindle.text import INVISIBLE, to_printable

FORMAT: Final = 1
"""Version of the file format; a reader refuses every other."""
FILE_NAME: Final = "spindle.lock"
MAX_FILE_BYTES: Final = 64 << 20

_Definitions = Mapping[DefinitionKind, Mapping[str, LockedDefinition]]


@dataclass(frozen=True, kw_only=True, slots=True)
class LockedServer:
    """What one server offered, and where it came from."""

    origin: JsonObject = field(default_factory=dict[str, JsonValue])
    """`command` and its arguments, or `url`, without secrets."""
    program: JsonObject = field(default_factory=dict[str, JsonValue])
    """The name and version that the server reports about itself."""
    protocol: str | None = None
    capabilities: JsonObject = field(default_factory=dict[str, JsonValue])
    definitions: _Definitions = field(default_factory=dict[DefinitionKind, Mapping[str, LockedDefinition]])

    def of_kind(self, kind: DefinitionKind) -> Mapping[str, LockedDefinition]:
        """Return the definitions of one kind by name."""
        return self.definitions.get(kind, {})

    def count(self) -> int:
        """Return the number of definitions."""
        return sum(map(len, self.definitions.values()))


@dataclass(frozen=True, kw_only=True, slots=True)
class LockFile:
    """The accepted definitions of all locked servers."""

    servers: Mapping[str, LockedServer] = field(default_factory=dict[str, LockedServer])

    def to_text(self) -> str:
        """Return the content of the file: the same lock always has the same bytes."""
        servers = {name: _server_to_json(server) for name, server in self.servers.items()}
        text = json.dumps(
            {"spindle_lock": FORMAT, "servers": servers}, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False
        )
        # Such characters are only inside strings. A reviewer of the file must see them.
        return f"{_hidden().sub(_escape, text)}\n"

    @classmethod
    def parse(cls, text: str, *, path: str = FILE_NAME) -> "LockFile":
        """Read the content of a file.

        Raises:
            InvalidLockError: The content is not a lock, has another format version, or was edited by hand.
        """
        try:
            content: object = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_duplicates)
        except (ValueError, RecursionError) as error:
            raise InvalidLockError(f"{path}: not a lock file: {error}", path=path) from error
        if not is_object(content) or "spindle_lock" not in content:
            raise InvalidLockError(f"{path}: not a lock file: spindle_lock is missing", path=path)
        version: object = content["spindle_lock"]
        if type(version) is not int or version != FORMAT:
            version = to_printable(str(version), 40)
            what = f"has format {version}, and this Spindle reads format {FORMAT}"
            raise InvalidLockError(f"{path}: {what}; update Spindle, or write it again with `spindle lock`", path=path)
        return _Parser(path).read_file(content)

    @classmethod
    def read(cls, path: Path) -> "LockFile | None":
        """Read a file; return `None` if it does not exist.

        Raises:
            InvalidLockError: The file cannot be read, or is not a valid lock.
        """
        try:
            with path.open("rb") as opened:
                data = opened.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidLockError(f"{path}: cannot be read: {error.strerror}", path=str(path)) from error
        if len(data) > MAX_FILE_BYTES:
            raise InvalidLockError(f"{path}: is larger than {MAX_FILE_BYTES} bytes", path=str(path))
        try:
            return cls.parse(data.decode(), path=str(path))
        except UnicodeDecodeError as error:
            raise InvalidLockError(f"{path}: not a lock file: not UTF-8 text", path=str(path)) from error

    def write(self, path: Path) -> None:
        """Replace the file at once: a reader sees the old content or the new one.

        Raises:
            InvalidLockError: The lock would be larger than a reader accepts, or the file cannot be written.
        """
        data = self.to_text().encode()
        if len(data) > MAX_FILE_BYTES:
            what = f"would have {len(data)} bytes, and the limit is {MAX_FILE_BYTES}"
            raise InvalidLockError(f"{path}: {what}; lock fewer servers", path=str(path))
        try:
            _replace_file(path, data)
        except OSError as error:
            raise InvalidLockError(f"{path}: cannot be written: {error.strerror}", path=str(path)) from error


def _replace_file(path: Path, data: bytes) -> None:
    target = path.resolve()  # a symbolic link stays one
    try:
        mode = target.stat().st_mode & 0o777
    except FileNotFoundError:
        mode = 0o644
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        Path(name).chmod(mode)
        Path(name).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


@cache
def _hidden() -> re.Pattern[str]:
    return re.compile(f"[{INVISIBLE}]")


def _escape(found: re.Match[str]) -> str:
    data = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))


def _refuse_constant(text: str) -> JsonValue:
    raise ValueError(f"{text} is not JSON")


def _refuse_duplicates(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def _server_to_json(server: LockedServer) -> JsonObject:
    return {
        "origin": server.origin,
        "program": server.program,
        "protocol": server.protocol,
        "capabilities": server.capabilities,
        "definitions": {
            kind: {name: _definition_to_json(each) for name, each in server.of_kind(kind).items()}
            for kind in KINDS
            if server.of_kind(kind)
        },
    }


def _definition_to_json(definition: LockedDefinition) -> JsonObject:
    return {
        "fingerprint": f"sha256:{definition.fingerprint}",
        "description": f"sha256:{definition.description_sha256}",
        "tokens": definition.estimate_tokens(),
        "definition": definition.value,
    }


class _Parser:
    """Checks the shape of a lock, and that each fingerprint is that of its definition."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read_file(self, content: JsonObject) -> LockFile:
        self._expect_keys(content, {"spindle_lock", "servers"}, "the file")
        servers = self._object(content.get("servers"), "servers")
        return LockFile(servers={name: self._server(name, value) for name, value in servers.items()})

    def _server(self, name: str, value: JsonValue) -> LockedServer:
        place = f"servers.{to_printable(name, 80)}"
        given = self._object(value, place)
        self._expect_keys(given, {"origin", "program", "protocol", "capabilities", "definitions"}, place)
        protocol = given.get("protocol")
        if protocol is not None and not isinstance(protocol, str):
            raise self._error(f"{place}.protocol", "expected a text or null")
        definitions = self._object(given.get("definitions"), f"{place}.definitions")
        self._expect_keys(definitions, set(KINDS), f"{place}.definitions")
        return LockedServer(
            origin=self._object(given.get("origin"), f"{place}.origin"),
            program=self._object(given.get("program"), f"{place}.program"),
            protocol=protocol,
            capabilities=self._object(given.get("capabilities"), f"{place}.capabilities"),
            definitions={
                kind: {
                    each: self._definition(kind, each, entry, f"{place}.{kind}.{to_printable(each, 80)}")
                    for each, entry in self._object(definitions[kind], f"{place}.{kind}").items()
                }
                for kind in KINDS
                if kind in definitions
            },
        )

    def _definition(self, kind: DefinitionKind, name: str, entry: JsonValue, place: str) -> LockedDefinition:
        given = self._object(entry, place)
        self._expect_keys(given, {"fingerprint", "description", "tokens", "definition"}, place)
        try:
            read = read_definition(kind, given.get("definition"))
        except ValueError as error:
            raise self._error(place, str(error)) from error
        expected = (name, f"sha256:{read.fingerprint}", f"sha256:{read.description_sha256}")
        if expected != (read.name, given.get("fingerprint"), given.get("description")):
            raise self._error(place, "its hashes are not those of its definition; the file was edited by hand")
        return read

    def _object(self, value: JsonValue, place: str) -> JsonObject:
        if not is_object(value):
            raise self._error(place, f"expected an object, got {'a list' if is_array(value) else 'another value'}")
        return value

    def _expect_keys(self, value: JsonObject, known: set[str], place: str) -> None:
        unknown = sorted(value.keys() - known)
        if unknown:
            raise self._error(place, f"unknown key {to_printable(unknown[0], 80)!r}")

    def _error(self, place: str, what: str) -> InvalidLockError:
        return InvalidLockError(
            f"{self._path}: {place}: {what}; write it again with `spindle lock`", path=self._path, field=place
        )
