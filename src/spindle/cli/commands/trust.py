"""`spindle trust`: show what the configuration of the working folder would do, and accept it."""

import os
from collections.abc import Iterator
from json import dumps as json_text
from pathlib import Path
from typing import Annotated, cast

from cyclopts import Parameter

from spindle.addresses import mask_password
from spindle.cli.config.loader import parse_config, read_config_bytes
from spindle.cli.config.local_code import find_imported_servers, find_local_code
from spindle.cli.config.schema import ConfigFile
from spindle.cli.config.schema_servers import ServerEntry
from spindle.cli.config.schema_types import ConfigSection
from spindle.cli.config.sources import find_config, find_variables
from spindle.cli.config.trust import TrustStore
from spindle.cli.main import NOT_FOUND, OK, REFUSED
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json
from spindle.cli.output import Output, stderr
from spindle.cli.prompts import confirm
from spindle.errors import CommandError

_ORDER = "tools server reach spindle spool journal storage limits"
_VERBS = {
    "tools.modules": "imports",
    "server.offers": "imports",
    "engine.turns": "imports",
    "tools.http_secrets": "passes on",
    "openapi.servers": "connects to",
    "reach": "grants",
    "spindle.state": "writes to",
    "spool": "stores",
    "journal": "stores",
    "storage": "stores",
}

Effect = tuple[str, str, str]
"""What a configuration does, by which key, and with what."""


def trust(
    file: Annotated[Path | None, Parameter(help="Accept this spindle.toml instead of the nearest one.")] = None,
    /,
    *,
    yes: Annotated[bool, Parameter(name="--yes", negative="", help="Accept it without asking.")] = False,
    revoke: Annotated[bool, Parameter(name="--revoke", negative="", help="Accept it no longer.")] = False,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Show what a configuration would start, import and pass on, and accept it as it is now.

    A configuration found in the working folder, or above it, is used only after it was accepted. When the file or the
    local code that it names changes, it must be accepted again.
    """
    path, cwd = _find(file or where.config), Path.cwd()
    store = TrustStore.open(cwd=cwd, environ=os.environ)
    if revoke:
        was_trusted = store.revoke(path)
        _report(path, f"{path} is {'no longer' if was_trusted else 'not'} trusted", json=json, trusted=False)
        return OK
    data = read_config_bytes(path)
    _, config = parse_config(path, data)
    code = find_local_code(config, path.parent, cwd=cwd, environ=os.environ)
    effects = [
        *describe(config, path.parent),
        *(("runs", "local code", os.path.relpath(each, path.parent)) for each in code),
    ]
    if not json:
        out = Output()
        out.line((str(path), "bold"))
        out.table(("it", "by", "what"), effects or [("does", "", "nothing that needs trust")], ("cyan",))
    if not yes and not confirm("Trust it? [y/N] "):
        raise CommandError(
            f"{path} was not trusted", exit_code=REFUSED, hint="`spindle trust --yes` accepts it unasked"
        )
    store.accept(path, data, config)
    _report(path, f"{path} is trusted until it changes", json=json, trusted=True, effects=effects)
    return OK


def _find(given: Path | None) -> Path:
    cwd = Path.cwd()
    # A configuration that was chosen needs no trust, but may be found later: SPINDLE_CONFIG does not count here.
    environ = {name: value for name, value in os.environ.items() if name != "SPINDLE_CONFIG"}
    found = find_config(given, cwd=cwd, environ=environ)
    if found is None:
        raise CommandError(
            "no spindle.toml in this folder or above it", exit_code=NOT_FOUND, hint="name the file to trust"
        )
    return found.path


def _report(path: Path, message: str, *, json: bool, trusted: bool, effects: list[Effect] | None = None) -> None:
    if not json:
        stderr().line(message)
        return
    lines = [{"does": does, "by": by, "what": what} for does, by, what in effects or ()]
    Output().json({"path": str(path), "trusted": trusted, "effects": lines})


def describe(config: ConfigFile, base: Path) -> Iterator[Effect]:
    """Yield what a configuration starts, connects to, passes on, imports and sets; every key that is set appears."""
    for name, entry in config.mcp.servers.items():
        if entry.enabled:
            yield from _describe_server(f"mcp.servers.{name}", entry)
    for path, servers in find_imported_servers(config, base, os.environ).items():
        yield "reads", "mcp.import", str(path)
        for name, entry in servers.items():
            yield from _describe_server(f"{path.name}: {name}", entry)
    for name in sorted(config.mcp.model_fields_set & {"lock", "unlocked_servers"}):
        yield "sets", f"mcp.{name}", _to_text(getattr(config.mcp, name))
    for table in sorted(config.model_fields_set - {"mcp", "profiles"}, key=_ORDER.find):
        section: ConfigSection = getattr(config, table)
        for name in sorted(section.model_fields_set):
            value = getattr(section, name)
            key = f"{table}.{name}"
            if value not in (None, (), {}, False):
                yield _VERBS.get(key) or _VERBS.get(table, "sets"), key, _to_text(value)


def _to_text(value: object) -> str:
    match value:
        case str():
            return mask_password(value)
        case tuple():
            return ", ".join(map(str, cast("tuple[object, ...]", value)))
        case bool() | int() | float():
            return str(value).lower()
        case _:
            return json_text(value, default=str)


def _describe_server(key: str, entry: ServerEntry) -> Iterator[Effect]:
    if entry.command is not None:
        place = f"  (in {entry.cwd})" if entry.cwd is not None else ""
        yield "starts", key, " ".join([entry.command, *entry.args]) + place
    else:
        yield "connects to", key, mask_password(entry.url or "")
    given = (entry.command or "", *entry.args, *entry.env.values(), entry.url or "", *entry.headers.values())
    variables = [*entry.env_passthrough, *(name for text in given for name in find_variables(text))]
    secrets = [*entry.env_secrets.values(), *entry.header_secrets.values()]
    if entry.env:
        yield "sets", f"{key}.env", ", ".join(f"{name}={value}" for name, value in entry.env.items())
    if variables:
        yield "passes on", key, f"environment variables {', '.join(dict.fromkeys(variables))}"
    if secrets:
        yield "passes on", key, f"secrets {', '.join(dict.fromkeys(secrets))}"
    if entry.command is not None:
        yield from _describe_sandbox(key, entry)
    if entry.trusted:
        yield "trusts", key, "its results are not fenced"


def _describe_sandbox(key: str, entry: ServerEntry) -> Iterator[Effect]:
    if entry.sandbox == "none":
        yield "runs", f"{key}.sandbox", "WITHOUT A SANDBOX: it can reach all that you can"
        return
    for verb, name in (("reads", "read"), ("writes to", "write")):
        if paths := getattr(entry, name):
            yield verb, f"{key}.{name}", ", ".join(paths)
    if not entry.network:
        yield "denies", f"{key}.network", "the network"
