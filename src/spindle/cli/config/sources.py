"""Sources of the configuration: finding `spindle.toml`, importing MCP client files, expanding `${NAME}`, stores."""

import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from spindle.addresses import get_scheme, has_password, hide_credentials, refuse_url
from spindle.cli.config.problems import SourceFile
from spindle.cli.config.schema import (
    EngineSection,
    JournalSection,
    SpoolSection,
    StorageSection,
    looks_like_secret,
)
from spindle.cli.config.schema_types import MEMORY
from spindle.errors import InvalidConfigError
from spindle.json_types import JsonObject, JsonValue, is_array, is_object

NAME = "spindle.toml"


@dataclass(frozen=True, slots=True)
class FoundConfig:
    """A configuration file, and whether the user chose it: named it, or keeps it in the own configuration folder."""

    path: Path
    is_chosen: bool


def find_config(given: Path | None, *, cwd: Path, environ: Mapping[str, str]) -> FoundConfig | None:
    """Return the given file, else the nearest one from the working folder upwards, else the user's own.

    Raises:
        InvalidConfigError: The given file is a URL or does not exist, or another user may write to a discovered one.
    """
    named, by = (given, "--config") if given is not None else (environ.get("SPINDLE_CONFIG") or None, "SPINDLE_CONFIG")
    if named is not None:
        if (scheme := get_scheme(str(named))) is not None:  # not quoted: it may contain a password
            raise InvalidConfigError(f"{by}: expected the path of a file, got a URL with the scheme {scheme!r}")
        path = (cwd / Path(named).expanduser()).absolute()
        if not path.is_file():
            raise InvalidConfigError(f"{path}: no such file (given by {by})", path=str(path))
        return FoundConfig(path, is_chosen=True)
    own = config_home(environ) / NAME
    for path in _candidates(cwd, environ):
        if path.is_file():
            _check_owner(path)
            return FoundConfig(path, is_chosen=path == own)
    return None


def config_home(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's configuration."""
    return _base(environ, "XDG_CONFIG_HOME", ".config") / "spindle"


def state_home(environ: Mapping[str, str]) -> Path:
    """Return the default folder for state."""
    return _base(environ, "XDG_STATE_HOME", ".local/state") / "spindle"


def _base(environ: Mapping[str, str], variable: str, otherwise: str) -> Path:
    given = Path(environ.get(variable) or "")
    # The XDG base directory specification requires relative paths to be ignored.
    return given if given.is_absolute() else Path(environ.get("HOME") or Path.home()) / otherwise


def _candidates(cwd: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environ.get("HOME") or "/")
    for folder in (cwd, *cwd.parents):
        yield folder / NAME
        if folder == home:
            break
    yield config_home(environ) / NAME


def _check_owner(path: Path) -> None:
    # A configuration can start programs: one that was discovered, not named, must not come from another user.
    if os.name != "posix":
        return
    found = path.stat()
    if found.st_uid not in {0, os.geteuid()} or stat.S_IMODE(found.st_mode) & 0o002:
        why = "it is world-writable" if found.st_mode & 0o002 else f"it is owned by another user (uid {found.st_uid})"
        raise InvalidConfigError(f"{path}: found, but {why}; pass it with --config if you trust it", path=str(path))


_COPIED_KEYS = ("command", "args", "env", "cwd", "url", "headers")
_KNOWN_KEYS = {*_COPIED_KEYS, "type", "transport", "disabled", "enabled", "name", "description", "serverUrl", "httpUrl"}
_TRANSPORTS = {"stdio", "http", "streamable-http", "streamableHttp", "streamable_http"}
_MAX_WORDS = 200
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedServers:
    """The servers of one imported file, converted to entries of a `spindle.toml`."""

    source: SourceFile
    table: str
    """The key of the servers in the file."""
    servers: Mapping[str, JsonObject]
    notes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    """Why servers were skipped, one line each."""


def read_mcp_json(path: Path) -> ImportedServers:
    """Read the servers of a desktop client's file; other keys and unsupported transports are skipped.

    Raises:
        InvalidConfigError: The file cannot be read, is not JSON, or has no servers.
    """
    try:
        source = SourceFile(path=path, text=path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:  # a path with a NUL character is a ValueError
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text, or no valid path"
        raise InvalidConfigError(f"{path}: cannot read the file: {why}", path=str(path)) from error
    content = _parse_lenient_json(source)
    for table in ("mcpServers", "servers"):
        if is_object(content) and is_object(servers := content.get(table)):
            return _convert_servers(source, table, servers)
    raise source.error((), 'expected {"mcpServers": {…}} or {"servers": {…}}; is it the right file?')


def _parse_lenient_json(source: SourceFile) -> JsonValue:
    # Some clients accept comments and trailing commas.
    plain = _TRAILING.sub(lambda it: it[1] or "", _COMMENT.sub(lambda it: it[1] or _blank(it[0]), source.text))
    try:
        return json.loads(plain)
    except json.JSONDecodeError as error:
        raise InvalidConfigError(
            f"{source.path}:{error.lineno}: invalid JSON: {error.msg} (column {error.colno})", path=str(source.path)
        ) from error
    except RecursionError:
        raise InvalidConfigError(f"{source.path}: nested too deeply", path=str(source.path)) from None


def _blank(comment: str) -> str:
    return "\n" * comment.count("\n")  # to preserve line numbers


def _convert_servers(source: SourceFile, table: str, servers: JsonObject) -> ImportedServers:
    notes: list[str] = []
    left_out: list[str] = []
    found: dict[str, JsonObject] = {}
    for name, entry in servers.items():
        if not is_object(entry):
            raise source.error((table, name), "expected an object with command or url")
        if starts_spindle(entry):
            notes.append(source.problem((table, name), "is skipped: it starts Spindle itself"))
            continue
        is_off = entry.get("disabled") is True or entry.get("enabled") is False
        transport = entry.get("type") or entry.get("transport")
        if isinstance(transport, str) and transport not in _TRANSPORTS:
            if not is_off:
                why = f"skipped: unsupported transport {transport!r}; only stdio and streamable HTTP are supported"
                left_out.append(source.problem((table, name), why))
            continue
        found[name] = _entry(entry) | ({"enabled": False} if is_off else {})
        notes += [source.problem((table, name), note) for note in _notes(entry)]
    return ImportedServers(source=source, table=table, servers=found, notes=tuple(notes), skipped=tuple(left_out))


def starts_spindle(entry: Mapping[str, JsonValue]) -> bool:
    """Return whether an entry starts Spindle, also as `uvx spindle …` or `python -m spindle.cli.main …`."""
    given = entry.get("args")
    args = [each for each in given[:_MAX_WORDS] if isinstance(each, str)] if is_array(given) else []
    programs = [
        re.split(r"[/\\]", word)[-1].lower().removesuffix(".exe") for word in (str(entry.get("command")), *args[:4])
    ]
    is_launched = "serve" in args and ("spindle" in programs or "spindle.cli.main" in args)
    return programs[0] == "spindle" or is_launched


def _entry(given: Mapping[str, JsonValue]) -> JsonObject:
    entry = {name: given[name] for name in _COPIED_KEYS if given.get(name) is not None}
    for other in ("serverUrl", "httpUrl"):
        if other in given:
            entry.setdefault("url", given[other])
    return entry


def _notes(given: Mapping[str, JsonValue]) -> list[str]:
    notes = [f"{name} is ignored: unknown key" for name in given if name not in _KNOWN_KEYS]
    for table in ("env", "headers"):
        values = given.get(table)
        if is_object(values):
            notes += [
                f"{table}.{name} contains a plain-text credential; use ${{NAME}} to read it from the environment"
                for name, value in values.items()
                if isinstance(value, str) and looks_like_secret(name, value)
            ]
    return notes


_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ANY = re.compile(r"\$\{[^}]*\}?")


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Replace `${NAME}`, `${NAME:-default}` and `${env:NAME}` by values of the environment.

    Raises:
        InvalidConfigError: A variable is unset and has no default, or the syntax is invalid.
    """

    def value_of(found: re.Match[str]) -> str:
        name, otherwise = found[1], found[2]
        value = environ.get(name)
        if value is None and otherwise is None:
            raise InvalidConfigError(
                f"the environment variable {name} is not set; set it, or write ${{{name}:-default}}"
            )
        return otherwise if value is None else value

    pieces: list[str] = []
    place = 0
    for found in _VARIABLE.finditer(text):
        pieces += [_check_plain_text(text[place : found.start()]), value_of(found)]
        place = found.end()
    return "".join([*pieces, _check_plain_text(text[place:])])


def find_variables(text: str) -> list[str]:
    """Return the names of the environment variables that `expand` would read."""
    return [found[1] for found in _VARIABLE.finditer(text)]


def expand_path(text: str, base: Path, environ: Mapping[str, str]) -> Path:
    """Expand variables and `~` in a path; a relative path is resolved against `base`.

    Raises:
        UsageError: It is a URL.
    """
    expanded = expand(text, environ)
    refuse_url(expanded)
    return Path(os.path.normpath(base / Path(expanded).expanduser()))


def _check_plain_text(text: str) -> str:
    if (wrong := _ANY.search(text)) is not None:
        raise InvalidConfigError(f"invalid variable reference {wrong[0]}; write ${{NAME}} or ${{NAME:-default}}")
    return text


SCHEMES: Final[Mapping[str, tuple[str, ...]]] = {
    "journal": ("postgresql", "postgres"),
    "storage": ("redis", "rediss", "unix"),
    "spool": ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "file", "memory", "http", "https"),
}
"""The schemes of `url` in each table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteStore:
    """A database or an object store; `str()` shows its URL without credentials."""

    url: str = field(repr=False)
    options: Mapping[str, str | bool] = field(default_factory=dict[str, str | bool])
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    """The name of a secret for each credential."""

    def __str__(self) -> str:
        return hide_credentials(self.url)


Place: TypeAlias = Path | RemoteStore | None
"""A path, a remote store, or `None` for memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreReader:
    """Reader of the tables that name a store."""

    expand: Callable[[tuple[str, ...], str], str]
    resolve_path: Callable[[tuple[str, ...], str], Path]
    error: Callable[[tuple[str, ...], str], InvalidConfigError]

    def read(self, table: str, section: JournalSection | StorageSection | SpoolSection, otherwise: Path) -> Place:
        """Return the place that a table names.

        Raises:
            InvalidConfigError: The path is a URL, or the URL has another scheme.
        """
        if section.url is not None:
            return self._remote(table, section.url, section)
        if section.path is None:
            return otherwise
        if section.path == MEMORY:
            return None
        return self.resolve_path((table, "path"), section.path)

    def read_spool(self, section: SpoolSection, otherwise: Path) -> str | RemoteStore | None:
        """Return the folder or the object store of the spool; `path` may be the URL of an object store, too."""
        if section.path is not None and get_scheme(section.path) in SCHEMES["spool"]:
            return self.expand(("spool", "path"), section.path)
        place = self.read("spool", section, otherwise)
        return str(place) if isinstance(place, Path) else place

    def _remote(self, table: str, text: str, section: JournalSection | StorageSection | SpoolSection) -> RemoteStore:
        url = self.expand((table, "url"), text)
        if get_scheme(url) not in SCHEMES[table]:
            known = " or ".join(f"{scheme}://" for scheme in SCHEMES[table][:2])
            # Not quoted: it may contain a password.
            raise self.error((table, "url"), f"expected a URL that starts with {known}")
        options = section.options
        plain = {
            name: self.expand((table, "options", name), value) if isinstance(value, str) else value
            for name, value in options.get_plain().items()
        }
        return RemoteStore(url=url, options=plain, secrets=options.get_secrets())


def find_notes(file: Mapping[str, JournalSection | StorageSection | SpoolSection | EngineSection]) -> list[str]:
    """Return a warning for each URL that contains a literal password."""
    hint = "use ${NAME} to read it from the environment, or name a secret in options"
    return [
        f"{table}.url contains a plain-text password; {hint}"
        for table, section in file.items()
        if section.url is not None and "${" not in section.url and has_password(section.url)
    ]
