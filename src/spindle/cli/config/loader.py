"""Load the configuration of a run: find the file, validate it and make every path absolute (`load_config`)."""

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias, cast

from pydantic import ValidationError

from spindle.addresses import refuse_url
from spindle.capabilities.withheld import OWN_FILES
from spindle.cli.config.local_code import LocalCode
from spindle.cli.config.problems import SourceFile, build_error, explain_validation_error
from spindle.cli.config.schema import (
    ConfigFile,
    EngineSection,
    LimitsSection,
    ReachSection,
    SpindleSection,
    SpoolSection,
    ToolsSection,
    looks_like_secret,
)
from spindle.cli.config.schema_flow import FlowSection
from spindle.cli.config.schema_gateway import LintSection, ProfileEntry, ServerSection, TrustSection
from spindle.cli.config.schema_servers import OpenApiEntry, ServerEntry
from spindle.cli.config.schema_types import ConfigSection
from spindle.cli.config.sources import (
    ImportedServers,
    RemoteStore,
    StoreReader,
    expand,
    expand_path,
    find_config,
    find_notes,
    read_mcp_json,
    state_home,
)
from spindle.cli.config.trust import TrustStore
from spindle.errors import InvalidConfigError, UsageError
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.mcp.spec import is_unambiguous_name

MAX_FILE_BYTES = 1 << 20
MakeError: TypeAlias = Callable[[tuple[str, ...], str], InvalidConfigError]

_EXPANDED = ("command", "args", "env", "cwd", "url", "headers")
"""Keys of a server entry in which `${NAME}` is replaced by an environment variable."""
_ORIGIN = {"command", "args", "url"}
_HINT = "set it in the environment and write ${NAME}, or name it in env_secrets or header_secrets"


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """The loaded configuration; `file` is `None` when the embedded defaults are used."""

    file: Path | None
    state: Path
    root: Path
    """The folder visible to file tools and commands."""
    spool: str | RemoteStore | None
    """A folder, the URL of an object store, or one with options; `None` keeps results in memory."""
    journal: Path | RemoteStore | None
    """A SQLite file or a PostgreSQL database; `None` keeps the journal in memory."""
    storage: Path | RemoteStore | None
    """The SQLite file or Redis server of the storage capability; `None` keeps it in memory."""
    tools: ToolsSection
    python_path: tuple[Path, ...] = ()
    limits: LimitsSection = field(default_factory=LimitsSection.model_construct)
    retention: SpoolSection = field(default_factory=SpoolSection.model_construct)
    reach: ReachSection = field(default_factory=ReachSection.model_construct)
    secrets_file: Path | None = None
    servers: Mapping[str, ServerEntry] = field(default_factory=dict[str, ServerEntry])
    apis: Mapping[str, OpenApiEntry] = field(default_factory=dict[str, OpenApiEntry])
    """The APIs whose operations become tools; files are absolute."""
    profiles: Mapping[str, ProfileEntry] = field(default_factory=dict[str, ProfileEntry])
    profile: str | None = None
    """The default profile, for callers without one."""
    server: ServerSection = field(default_factory=ServerSection.model_construct)
    trust: TrustSection = field(default_factory=TrustSection.model_construct)
    lint: LintSection = field(default_factory=LintSection.model_construct)
    engine: EngineSection = field(default_factory=EngineSection.model_construct)
    flow: FlowSection | None = None
    lock: Path | None = None
    """The lock file of the servers; `lock_is_named` if it must exist."""
    lock_is_named: bool = False
    unlocked_servers: Literal["offer", "quarantine"] = "offer"
    given_servers: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict[str, JsonObject], repr=False)
    """The servers as the files have them, without the values of variables."""
    notes: tuple[str, ...] = ()
    """Warnings about imported files and plain-text passwords."""
    skipped: tuple[str, ...] = ()
    """Why servers of an imported desktop-client file were skipped."""
    source: SourceFile | None = field(default=None, repr=False)
    accepted_code: LocalCode | None = field(default=None, repr=False)
    """What `spindle trust` accepted; `None` for a configuration that was chosen, whose code is not checked."""

    def error(self, key: Sequence[str], what: str) -> InvalidConfigError:
        """Build the error for one key, with file and line if the configuration was read from a file."""
        if self.source is not None:
            return self.source.error(tuple(key), what)
        return InvalidConfigError(f"{'.'.join(key)}: {what}", field=".".join(key))


def load_config(
    config: Path | None = None,
    *,
    mcp_configs: Sequence[Path] = (),
    kit: bool = False,
    state: Path | None = None,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Find and load the configuration; without any file, return the embedded defaults, which include the kit.

    `kit` adds the kit's tools to those of the files.

    Raises:
        InvalidConfigError: A file is invalid; each problem is one line with file, line and key.
        UntrustedConfigError: The file was found, not named, and `spindle trust` has not accepted it as it is.
    """
    here = Path.cwd() if cwd is None else cwd
    env = os.environ if environ is None else environ
    found = find_config(config, cwd=here, environ=env)
    path = None if found is None else found.path
    trust = None if found is None or found.is_chosen else TrustStore.open(cwd=here, environ=env)
    source, file, code = (None, ConfigFile.model_construct(), None) if path is None else read_config(path, trust)
    if kit or (path is None and not mcp_configs):
        file = file.model_copy(update={"tools": file.tools.model_copy(update={"kit": True})})
    reading = _ConfigBuilder(source=source, base=here if path is None else path.parent, environ=env)
    imported = [reading.resolve_path(("mcp", "import"), each) for each in file.mcp.imports]
    imported += [(here / each.expanduser()).absolute() for each in mcp_configs]
    foreign = [read_mcp_json(each) for each in imported]
    servers, left_out = reading.merge_servers(file, foreign)
    read = reading.build(path, file, state, servers)
    tls_key = None if file.server.tls_key is None else reading.base / os.path.expanduser(file.server.tls_key)  # noqa: PTH111 - never raises
    for own in (path, read.state, read.secrets_file, tls_key, read.lock, *imported):
        if own is not None:
            OWN_FILES.add(own)
    given = {name: entry.model_dump(include=_ORIGIN) for name, entry in file.mcp.servers.items()}
    given |= {name: entry for each in foreign for name, entry in each.servers.items()}
    notes = find_notes({"journal": file.journal, "storage": file.storage, "spool": file.spool, "engine": file.engine})
    notes += [note for each in foreign for note in each.notes]
    return replace(read, notes=tuple(notes), skipped=left_out, accepted_code=code, given_servers=given)


def read_config(path: Path, trust: TrustStore | None = None) -> tuple[SourceFile, ConfigFile, LocalCode | None]:
    """Read and validate a file; with a store of trust, check that the user has accepted it, and return its code.

    Raises:
        InvalidConfigError: The file is invalid.
        UntrustedConfigError: The user has not accepted the file, or the local code it names.
    """
    data = read_config_bytes(path)
    if trust is not None:
        trust.check_file(path, data)
    source, file = parse_config(path, data)
    return source, file, None if trust is None else trust.check_local_code(path, file)


def read_config_bytes(path: Path) -> bytes:
    """Return the content of a file, at most one byte over the limit.

    Raises:
        InvalidConfigError: The file cannot be read.
    """
    try:
        with path.open("rb") as opened:
            return opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidConfigError(f"{path}: cannot read the file: {error.strerror}", path=str(path)) from error


def parse_config(path: Path, data: bytes) -> tuple[SourceFile, ConfigFile]:
    """Validate the content of a file.

    Raises:
        InvalidConfigError: The content is invalid.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidConfigError(f"{path}: cannot read the file: not UTF-8 text", path=str(path)) from error
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
    if is_object(value):
        return next(
            (found for name, part in value.items() if (found := _find_literal_secret(part, (*key, name)))), None
        )
    if is_array(value):
        return next((found for part in value if (found := _find_literal_secret(part, key))), None)
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
        except (UsageError, RuntimeError) as error:
            raise self._error(key, str(error)) from None

    def expand_text(self, key: tuple[str, ...], text: str) -> str:
        try:
            return expand(text, self.environ)
        except InvalidConfigError as error:
            raise self._error(key, str(error)) from None

    def build(self, path: Path | None, file: ConfigFile, state: Path | None, servers: dict[str, ServerEntry]) -> Config:
        place = self._state(file.spindle, state)
        reach = file.reach
        for name, paths in (("read", reach.read), ("write", reach.write)):
            for each in paths or ():
                try:
                    refuse_url(each)
                except UsageError as error:
                    raise self._error(("reach", name), str(error)) from None
        stores = StoreReader(expand=self.expand_text, resolve_path=self.resolve_path, error=self._error)
        secrets_file = (
            None if reach.secrets_file is None else self.resolve_path(("reach", "secrets_file"), reach.secrets_file)
        )
        return Config(
            file=path,
            source=self.source,
            state=place,
            root=place / "workspace" if reach.root is None else self.resolve_path(("reach", "root"), reach.root),
            spool=stores.read_spool(file.spool, place / "spool"),
            journal=stores.read("journal", file.journal, place / "journal.sqlite"),
            storage=stores.read("storage", file.storage, place / "storage.sqlite"),
            tools=file.tools,
            python_path=tuple(self.resolve_path(("tools", "python_path"), each) for each in file.tools.python_path),
            limits=file.limits,
            retention=file.spool,
            reach=reach,
            secrets_file=secrets_file,
            servers=servers,
            lock=self.resolve_path(("mcp", "lock"), file.mcp.lock or "spindle.lock"),
            lock_is_named=file.mcp.lock is not None,
            unlocked_servers=file.mcp.unlocked_servers,
            apis={name: self._expand_api(name, entry) for name, entry in file.openapi.servers.items()},
            profiles=file.profiles,
            profile=file.spindle.profile,
            server=file.server,
            trust=file.trust,
            lint=file.lint,
            engine=self._expand_engine(file.engine),
            flow=file.flow,
        )

    def _expand_engine(self, section: EngineSection) -> EngineSection:
        if section.url is None:
            return section
        return section.model_copy(update={"url": self.expand_text(("engine", "url"), section.url)})

    def _expand_api(self, name: str, entry: OpenApiEntry) -> OpenApiEntry:
        key = ("openapi", "servers", name)
        if not is_unambiguous_name(name):
            raise self._error(key, _AMBIGUOUS)
        if not entry.enabled:
            return entry
        changed: JsonObject = {}
        for field_name in ("url", "base_url"):
            text = getattr(entry, field_name)
            changed[field_name] = None if text is None else self.expand_text((*key, field_name), text)
        if entry.file is not None:
            changed["file"] = str(self.resolve_path((*key, "file"), entry.file))
        return entry.model_copy(update=changed)

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
        for name in found:
            if not is_unambiguous_name(name):
                raise self._error(("mcp", "servers", name), _AMBIGUOUS)
        left_out: list[str] = []
        for each in imported:
            left_out += each.skipped
            for name, given in each.servers.items():
                key = (each.table, name)
                if name in found:
                    raise each.source.error(key, "a server with this name is already configured; rename one of them")
                entry = _entry(each.source, key, name, given)
                try:
                    if not is_unambiguous_name(name):
                        raise each.source.error(key, _AMBIGUOUS)
                    found[name] = self._expand_entry(key, entry, each.source.path.parent, each.source.error)
                except InvalidConfigError as problem:
                    # The client may resolve variables that we cannot; its other servers stay usable.
                    found[name] = entry.model_copy(update={"enabled": False})
                    left_out.append(f"{problem}; the server is skipped")
        return found, tuple(left_out)

    def _expand_entry(self, key: tuple[str, ...], entry: ServerEntry, base: Path, error: MakeError) -> ServerEntry:
        if not entry.enabled:
            return entry  # its variables may be unset
        changed: JsonObject = {}
        for name in _EXPANDED:
            try:
                changed[name] = self._expand_value(getattr(entry, name))
            except InvalidConfigError as problem:
                raise error((*key, name), str(problem)) from None
        if entry.cwd is not None:
            try:
                refuse_url(changed["cwd"], field="cwd")
            except UsageError as problem:
                raise error((*key, "cwd"), str(problem)) from None
            changed["cwd"] = os.path.normpath(base / Path(changed["cwd"]).expanduser())
        for name in ("read", "write"):
            try:
                changed[name] = tuple(str(expand_path(each, base, self.environ)) for each in getattr(entry, name))
            except (UsageError, RuntimeError) as problem:
                raise error((*key, name), str(problem)) from None
        return entry.model_copy(update=changed)

    def _expand_value(self, value: JsonValue) -> JsonValue:
        match value:
            case str():
                return expand(value, self.environ)
            case tuple():
                return tuple(map(self._expand_value, cast("tuple[JsonValue, ...]", value)))
            case _ if is_object(value):
                return {name: self._expand_value(part) for name, part in value.items()}
            case _:
                return value

    def _state(self, section: SpindleSection, given: Path | None) -> Path:
        chosen = given or self.environ.get("SPINDLE_STATE")
        if chosen:
            refuse_url(chosen, field="state")
            return Path(chosen).expanduser().absolute()
        return (
            state_home(self.environ)
            if section.state is None
            else self.resolve_path(("spindle", "state"), section.state)
        )

    def _error(self, key: tuple[str, ...], what: str) -> InvalidConfigError:
        if self.source is None:
            return InvalidConfigError(f"{'.'.join(key)}: {what}", field=".".join(key))
        return self.source.error(key, what)


_AMBIGUOUS = "a server's name must not contain __ or end with _, which separates it from its tools' names; rename it"


def _entry(source: SourceFile, key: tuple[str, ...], name: str, given: Mapping[str, JsonValue]) -> ServerEntry:
    class One(ConfigSection):
        """Schema that validates one entry of an imported file."""

        servers: dict[str, ServerEntry]

    try:
        return One.model_validate({"servers": {name: given}}).servers[name]
    except ValidationError as error:
        problems = [((*key, *where[2:]), what) for where, what in explain_validation_error(error, One)]
        raise build_error(problems, source) from None
