"""Sources of the configuration: finding `spindle.toml`, importing MCP client files, expanding `${NAME}`."""

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from spindle.cli.config.problems import SourceFile
from spindle.cli.config.schema import looks_like_secret
from spindle.errors import InvalidConfigError

NAME = "spindle.toml"


def find_config(given: Path | None, *, cwd: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the given file, else the nearest one from the working folder upwards, else the user's own.

    Raises:
        InvalidConfigError: The given file does not exist, or a discovered one is owned or writable by another user.
    """
    named, by = (given, "--config") if given is not None else (environ.get("SPINDLE_CONFIG") or None, "SPINDLE_CONFIG")
    if named is not None:
        path = (cwd / Path(named).expanduser()).absolute()
        if not path.is_file():
            raise InvalidConfigError(f"{path}: no such file (given by {by})", path=str(path))
        return path
    for path in _candidates(cwd, environ):
        if path.is_file():
            _check_owner(path)
            return path
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
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedServers:
    """The servers of one imported file, converted to entries of a `spindle.toml`."""

    source: SourceFile
    table: str
    """The key of the servers in the file."""
    servers: Mapping[str, dict[str, Any]]
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
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InvalidConfigError(f"{path}: cannot read the file: {why}", path=str(path)) from error
    content = _parse_lenient_json(source)
    for table in ("mcpServers", "servers"):
        if isinstance(content, dict) and isinstance(servers := cast("Any", content).get(table), dict):
            return _convert_servers(source, table, cast("dict[str, Any]", servers))
    raise source.error((), 'expected {"mcpServers": {…}} or {"servers": {…}}; is it the right file?')


def _parse_lenient_json(source: SourceFile) -> Any:
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


def _convert_servers(source: SourceFile, table: str, servers: dict[str, Any]) -> ImportedServers:
    notes: list[str] = []
    left_out: list[str] = []
    found: dict[str, dict[str, Any]] = {}
    for name, given in servers.items():
        if not isinstance(given, dict):
            raise source.error((table, name), "expected an object with command or url")
        entry = cast("dict[str, Any]", given)
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


def _entry(given: Mapping[str, Any]) -> dict[str, Any]:
    entry = {name: given[name] for name in _COPIED_KEYS if given.get(name) is not None}
    for other in ("serverUrl", "httpUrl"):
        if other in given:
            entry.setdefault("url", given[other])
    return entry


def _notes(given: Mapping[str, Any]) -> list[str]:
    notes = [f"{name} is ignored: unknown key" for name in given if name not in _KNOWN_KEYS]
    for table in ("env", "headers"):
        values = given.get(table)
        if isinstance(values, dict):
            notes += [
                f"{table}.{name} contains a plain-text credential; use ${{NAME}} to read it from the environment"
                for name, value in cast("dict[str, Any]", values).items()
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


def expand_path(text: str, base: Path, environ: Mapping[str, str]) -> Path:
    """Expand variables and `~` in a path; a relative path is resolved against `base`."""
    return Path(os.path.normpath(base / Path(expand(text, environ)).expanduser()))


def _check_plain_text(text: str) -> str:
    if (wrong := _ANY.search(text)) is not None:
        raise InvalidConfigError(f"invalid variable reference {wrong[0]}; write ${{NAME}} or ${{NAME:-default}}")
    return text
