"""Load the configuration of a run: find the file, validate it and make every path absolute (`load_config`)."""

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from pydantic import ValidationError

from spindle.cli.config.problems import SourceFile, build_error, explain_validation_error
from spindle.cli.config.schema import (
    MEMORY,
    ConfigFile,
    LimitsSection,
    ProfileEntry,
    ReachSection,
    Section,
    ServerEntry,
    ServerSection,
    SpindleSection,
    SpoolSection,
    ToolsSection,
    looks_like_secret,
)
from spindle.cli.config.sources import ImportedServers, expand, expand_path, find_config, read_mcp_json, state_home
from spindle.errors import InvalidConfigError

MAX_FILE_BYTES = 1 << 20
MakeError: TypeAlias = Callable[[tuple[str, ...], str], InvalidConfigError]

_EXPANDED = ("command", "args", "env", "cwd", "url", "headers")
"""Keys of a server entry in which `${NAME}` is replaced by an environment variable."""
_HINT = "set it in the environment and write ${NAME}, or name it in env_secrets or header_secrets"


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """The loaded configuration; `file` is `None` when the embedded defaults are used."""

    file: Path | None
    state: Path
    root: Path
    """The folder visible to file tools and commands."""
    spool: str | None
    """A folder or the URL of an object store; `None` keeps results in memory."""
    journal: Path | None
    """A SQLite file; `None` keeps the journal in memory."""
    storage: Path | None
    """The SQLite file of the storage capability; `None` keeps it in memory."""
    tools: ToolsSection
    python_path: tuple[Path, ...] = ()
    limits: LimitsSection = field(default_factory=LimitsSection.model_construct)
    retention: SpoolSection = field(default_factory=SpoolSection.model_construct)
    reach: ReachSection = field(default_factory=ReachSection.model_construct)
    secrets_file: Path | None = None
    servers: Mapping[str, ServerEntry] = field(default_factory=dict[str, ServerEntry])
    profiles: Mapping[str, ProfileEntry] = field(default_factory=dict[str, ProfileEntry])
    profile: str | None = None
    """The default profile, for callers without one."""
    server: ServerSection = field(default_factory=ServerSection.model_construct)
    notes: tuple[str, ...] = ()
    """Warnings about imported files."""
    skipped: tuple[str, ...] = ()
    """Why servers of an imported desktop-client file were skipped."""
    source: SourceFile | None = field(default=None, repr=False)

    def error(self, key: Sequence[str], what: str) -> InvalidConfigError:
        """Build the error for one key, with file and line if the configuration was read from a file."""
        if self.source is not None:
            return self.source.error(tuple(key), what)
        return InvalidConfigError(f"{'.'.join(key)}: {what}", field=".".join(key))


def load_config(
    config: Path | None = None,
    *,
    mcp_configs: Sequence[Path] = (),
    state: Path | None = None,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Find and load the configuration; without a file, return the embedded defaults.

    Raises:
        InvalidConfigError: A file is invalid; each problem is one line with file, line and key.
    """
    here = Path.cwd() if cwd is None else cwd
    env = os.environ if environ is None else environ
    path = find_config(config, cwd=here, environ=env)
    source, file = (None, _defaults()) if path is None else _read(path)
    reading = _ConfigBuilder(source=source, base=here if path is None else path.parent, environ=env)
    imported = [reading.resolve_path(("mcp", "import"), each) for each in file.mcp.imports]
    imported += [(here / each.expanduser()).absolute() for each in mcp_configs]
    foreign = [read_mcp_json(each) for each in imported]
    servers, left_out = reading.merge_servers(file, foreign)
    read = reading.build(path, file, state, servers)
    return replace(read, notes=tuple(note for each in foreign for note in each.notes), skipped=left_out)


def _defaults() -> ConfigFile:
    return ConfigFile.model_construct(tools=ToolsSection.model_construct(kit=True))


def _read(path: Path) -> tuple[SourceFile, ConfigFile]:
    try:
        with path.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InvalidConfigError(f"{path}: cannot read the file: {why}", path=str(path)) from error
    if len(data) > MAX_FILE_BYTES:
        raise InvalidConfigError(
            f"{path}: is larger than {MAX_FILE_BYTES} bytes; is it the right file?", path=str(path)
        )
    source = SourceFile(path=path, text=text)
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidConfigError(f"{path}: invalid TOML: {error}", path=str(path)) from error
    literal = _find_literal_secret(content)
    if literal is not None:
        raise source.error(literal, f"looks like a credential, which must not be stored in this file; {_HINT}")
    try:
        return source, ConfigFile.model_validate(content)
    except ValidationError as error:
        raise build_error(
            explain_validation_error(error, ConfigFile), source
        ) from None  # the cause would expose the values


def _find_literal_secret(value: object, key: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    """Return the key of the first literal credential, or `None`."""
    if isinstance(value, dict):
        parts = cast("dict[str, object]", value).items()
        return next((found for name, part in parts if (found := _find_literal_secret(part, (*key, name)))), None)
    if isinstance(value, list):
        return next((found for part in cast("list[object]", value) if (found := _find_literal_secret(part, key))), None)
    if not isinstance(value, str) or key[-1:] == ("token_sha256",):
        return None
    # Key names are a useful signal only for values sent to a server; elsewhere they cause false positives.
    name = key[-1] if len(key) > 1 and key[-2] in {"env", "headers"} else ""
    return key if looks_like_secret(name, value) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class _ConfigBuilder:
    """Builder of a `Config` from a validated file."""

    source: SourceFile | None
    base: Path
    environ: Mapping[str, str]

    def resolve_path(self, key: tuple[str, ...], text: str) -> Path:
        try:
            return expand_path(text, self.base, self.environ)
        except (InvalidConfigError, RuntimeError) as error:
            raise self._error(key, str(error)) from None

    def build(self, path: Path | None, file: ConfigFile, state: Path | None, servers: dict[str, ServerEntry]) -> Config:
        place = self._state(file.spindle, state)
        reach = file.reach
        spool, journal = file.spool.path, file.journal.path
        secrets_file = (
            None if reach.secrets_file is None else self.resolve_path(("reach", "secrets_file"), reach.secrets_file)
        )
        return Config(
            file=path,
            source=self.source,
            state=place,
            root=place / "workspace" if reach.root is None else self.resolve_path(("reach", "root"), reach.root),
            spool=str(place / "spool") if spool is None else self._spool(spool),
            journal=self._resolve_file(("journal", "path"), journal, place / "journal.sqlite"),
            storage=place / "storage.sqlite",
            tools=file.tools,
            python_path=tuple(self.resolve_path(("tools", "python_path"), each) for each in file.tools.python_path),
            limits=file.limits,
            retention=file.spool,
            reach=reach,
            secrets_file=secrets_file,
            servers=servers,
            profiles=file.profiles,
            profile=file.spindle.profile,
            server=file.server,
        )

    def merge_servers(
        self, file: ConfigFile, imported: Sequence[ImportedServers]
    ) -> tuple[dict[str, ServerEntry], tuple[str, ...]]:
        """Merge the servers of this file with those of imported files.

        Return the servers by name and why servers of imported files were skipped.

        Raises:
            InvalidConfigError: A server is invalid, or two servers have the same name.
        """
        found = {
            name: self._expand_entry(("mcp", "servers", name), entry, self.base, self._error)
            for name, entry in file.mcp.servers.items()
        }
        left_out: list[str] = []
        for each in imported:
            left_out += each.skipped
            for name, given in each.servers.items():
                key = (each.table, name)
                if name in found:
                    raise each.source.error(key, "a server with this name is already configured; rename one of them")
                entry = _entry(each.source, key, name, given)
                try:
                    found[name] = self._expand_entry(key, entry, each.source.path.parent, each.source.error)
                except InvalidConfigError as problem:
                    # The client may resolve variables that we cannot; its other servers stay usable.
                    found[name] = entry.model_copy(update={"enabled": False})
                    left_out.append(f"{problem}; the server is skipped")
        return found, tuple(left_out)

    def _expand_entry(self, key: tuple[str, ...], entry: ServerEntry, base: Path, error: MakeError) -> ServerEntry:
        if not entry.enabled:
            return entry  # its variables may be unset
        changed: dict[str, Any] = {}
        for name in _EXPANDED:
            try:
                changed[name] = self._expand_value(getattr(entry, name))
            except InvalidConfigError as problem:
                raise error((*key, name), str(problem)) from None
        if entry.cwd is not None:
            changed["cwd"] = os.path.normpath(base / Path(changed["cwd"]).expanduser())
        return entry.model_copy(update=changed)

    def _expand_value(self, value: Any) -> Any:
        match value:
            case str():
                return expand(value, self.environ)
            case tuple():
                return tuple(self._expand_value(part) for part in cast("tuple[Any, ...]", value))
            case dict():
                return {name: self._expand_value(part) for name, part in cast("dict[str, Any]", value).items()}
            case _:
                return value

    def _state(self, section: SpindleSection, given: Path | None) -> Path:
        if given is not None:
            return given.expanduser().absolute()
        named = self.environ.get("SPINDLE_STATE")
        if named:
            return Path(named).expanduser().absolute()
        return (
            state_home(self.environ)
            if section.state is None
            else self.resolve_path(("spindle", "state"), section.state)
        )

    def _resolve_file(self, key: tuple[str, ...], given: str | None, otherwise: Path) -> Path | None:
        if given is None:
            return otherwise
        return None if given == MEMORY else self.resolve_path(key, given)

    def _spool(self, given: str) -> str | None:
        if given == MEMORY:
            return None
        return given if "://" in given else str(self.resolve_path(("spool", "path"), given))

    def _error(self, key: tuple[str, ...], what: str) -> InvalidConfigError:
        if self.source is None:
            return InvalidConfigError(f"{'.'.join(key)}: {what}", field=".".join(key))
        return self.source.error(key, what)


def _entry(source: SourceFile, key: tuple[str, ...], name: str, given: Mapping[str, Any]) -> ServerEntry:
    class One(Section):
        """Schema that validates one entry of an imported file."""

        servers: dict[str, ServerEntry]

    try:
        return One.model_validate({"servers": {name: given}}).servers[name]
    except ValidationError as error:
        problems = [((*key, *where[2:]), what) for where, what in explain_validation_error(error, One)]
        raise build_error(problems, source) from None
