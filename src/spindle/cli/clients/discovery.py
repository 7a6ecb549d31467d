"""Discovery of MCP configurations: read the files of the catalogue, and nothing else; nothing in them is executed."""

import json
import os
import stat
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from spindle.cli.clients.catalogue import ANY, CLIENTS, Format, KnownClient, Location, Machine
from spindle.cli.clients.entries import describe_target, is_spindle, normalize_entry
from spindle.cli.clients.jsonc import parse
from spindle.errors import InvalidConfigError
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.text import shorten

MAX_FILE_BYTES: Final = 16 << 20
"""Claude Code keeps the history of every project in the same file."""
MAX_SERVERS: Final = 1_000
_MAX_FILES: Final = 100
_MAX_TEXT: Final = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundServer:
    """A server that a client's file names; secrets are masked."""

    name: str
    target: str
    """The command line or the URL."""
    kind: str
    """`command`, `url`, or `unknown` for an entry that is neither."""
    project: str | None = None
    """The project that the server belongs to, in a file for several projects."""
    variables: tuple[str, ...] = ()
    """The names of its environment variables and headers."""
    is_enabled: bool = True
    is_spindle: bool = False
    entry: JsonObject = field(default_factory=dict[str, JsonValue], repr=False)
    """As written in the file, with its secrets; not for output."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundFile:
    """A configuration file of a client."""

    client: KnownClient
    location: Location
    path: Path
    servers: tuple[FoundServer, ...] = ()
    problem: str | None = None
    """Why the file could not be read, or not whole."""


def find_files(machine: Machine, clients: Sequence[KnownClient] | None = None) -> list[FoundFile]:
    """Return the configuration files of the clients that exist, in the order of the catalogue."""
    found: list[FoundFile] = []
    seen: set[tuple[str, Path, tuple[str, ...]]] = set()
    for client in CLIENTS.values() if clients is None else clients:
        for location in client.locations:
            for path in _find_paths(machine, location):
                key = (client.name, path, location.table)
                if key not in seen:
                    seen.add(key)
                    read = read_file(client, location, path)
                    # Files that hold other settings, too, count only if they name servers.
                    if read.servers or read.problem or location.is_installable:
                        found.append(read)
    return found


def _find_paths(machine: Machine, location: Location) -> Iterator[Path]:
    if machine.system not in location.systems:
        return
    path = machine.expand(location.path)
    candidates = sorted(islice(path.parent.glob(path.name), _MAX_FILES)) if ANY in path.name else [path]
    yield from (each for each in candidates if os.path.lexists(each))


def read_file(client: KnownClient, location: Location, path: Path) -> FoundFile:
    """Read the servers of one file; whatever is wrong with it becomes its `problem`."""
    try:
        content = parse_content(read_text(path), location.format)
        entries = list(islice(_find_entries(content, location.table), MAX_SERVERS + 1))
    except InvalidConfigError as error:
        return FoundFile(client=client, location=location, path=path, problem=str(error))
    too_many = f"names more than {MAX_SERVERS} servers; the others are left out" if len(entries) > MAX_SERVERS else None
    servers = tuple(_describe(project, name, entry) for project, name, entry in entries[:MAX_SERVERS])
    return FoundFile(client=client, location=location, path=path, servers=servers, problem=too_many)


def read_text(path: Path) -> str:
    """Return the text of a regular file of at most `MAX_FILE_BYTES`.

    Raises:
        InvalidConfigError: It cannot be read, is not a file, is too large, or is not UTF-8.
    """
    try:
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(opened, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidConfigError("is not a regular file", path=str(path))
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidConfigError(f"cannot be read: {error.strerror}", path=str(path)) from error
    if len(data) > MAX_FILE_BYTES:
        raise InvalidConfigError(f"is larger than {MAX_FILE_BYTES >> 20} MiB", path=str(path))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidConfigError("is not UTF-8 text", path=str(path)) from None


def parse_content(text: str, format: Format) -> JsonValue:
    """Parse the text of a file.

    Raises:
        InvalidConfigError: It is not valid in its format.
    """
    if format == "toml":
        try:
            return tomllib.loads(text.removeprefix("\ufeff"))
        except (ValueError, RecursionError) as error:
            raise InvalidConfigError(f"is not valid TOML: {_explain(error)}") from None
    if format == "yaml":
        return _parse_yaml(text)
    if not text.strip("\ufeff \t\r\n"):
        return {}
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        if format == "jsonc":
            try:
                return parse(text).value
            except InvalidConfigError as problem:
                raise InvalidConfigError(f"is not valid JSON: {problem}") from None
        raise InvalidConfigError(f"is not valid JSON: {_explain(error)}") from None


def _parse_yaml(text: str) -> JsonValue:
    try:
        import yaml  # noqa: PLC0415 - an extra
    except ImportError:
        raise InvalidConfigError("is YAML, which needs PyYAML: pip install pyyaml") from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidConfigError(f"is not valid YAML: {_explain(error)}") from None


def _explain(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error).partition("\n")[0][:200]


def _find_entries(content: JsonValue, table: Sequence[str]) -> Iterator[tuple[str | None, str, JsonValue]]:
    """Yield the project, the name and the entry of each server below a table."""
    yield from _walk(content, list(table), None)


def _walk(value: JsonValue, steps: list[str], project: str | None) -> Iterator[tuple[str | None, str, JsonValue]]:
    if not steps:
        if is_array(value):  # a list of entries that have their names inside, as in YAML of Continue
            yield from (
                (project, name if isinstance(name := each.get("name"), str) else str(number), each)
                for number, each in enumerate(value)
                if is_object(each)
            )
        elif is_object(value):
            yield from ((project, str(name), entry) for name, entry in value.items())
    elif is_object(value):
        step, *rest = steps
        chosen = value.items() if step == ANY else ([(step, value[step])] if step in value else [])
        for name, below in chosen:
            yield from _walk(below, rest, name if step == ANY else project)


def _describe(project: str | None, name: str, given: JsonValue) -> FoundServer:
    entry: JsonObject = dict(given) if is_object(given) else {}
    plain = normalize_entry(entry)
    names = [str(each) for key in ("env", "headers") for each in plain.get(key, ())]
    return FoundServer(
        name=shorten(str(name), _MAX_TEXT),
        target=shorten(describe_target(plain), _MAX_TEXT),
        kind="command" if "command" in plain else "url" if "url" in plain else "unknown",
        project=None if project is None else shorten(project, _MAX_TEXT),
        variables=tuple(shorten(each, _MAX_TEXT) for each in names[:_MAX_FILES]),
        is_enabled=plain.get("enabled", True) is not False,
        is_spindle=is_spindle(str(name), entry),
        entry=entry,
    )
