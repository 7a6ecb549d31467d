"""`spindle install CLIENT`: put Spindle into the configuration of an MCP client, or take it out again."""

import json as json_format
import re
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from spindle.cli.clients.catalogue import CLIENTS, KnownClient, Location, Machine, Scope
from spindle.cli.clients.completers import client_names
from spindle.cli.clients.entries import build_entry, build_url_entry
from spindle.cli.clients.installation import Change, plan_installation, plan_removal
from spindle.cli.completers import profile_names
from spindle.cli.main import NOT_FOUND, OK, REFUSED, USAGE
from spindle.cli.options import (
    DEFAULT_CONFIG_OPTIONS,
    ConfigOptions,
    Json,
    build_unknown_error,
    find_own_command,
    list_config_arguments,
)
from spindle.cli.output import Output, print_message, stderr
from spindle.cli.prompts import confirm
from spindle.cli.runtime_registry import build_filter
from spindle.errors import CommandError
from spindle.json_types import JsonObject

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def install(
    client: Annotated[str, Parameter(help="The client, as `spindle discover` names it.", completer=client_names)],
    /,
    *,
    profile: Annotated[
        str | None, Parameter(help="Serve this profile's view of the tools.", completer=profile_names)
    ] = None,
    http: Annotated[str | None, Parameter(help="Connect to a running `spindle serve` at this URL instead.")] = None,
    token_env: Annotated[
        str | None, Parameter(help="With --http: the client's environment variable that holds the bearer token.")
    ] = None,
    name: Annotated[str, Parameter(help="The name of the entry, `spindle` by default.")] = "spindle",
    project: Annotated[bool, Parameter(negative="", help="The client's file in the working folder.")] = False,
    dry_run: Annotated[bool, Parameter(negative="", help="Only show what would change.")] = False,
    yes: Annotated[bool, Parameter(name="--yes", negative="", help="Write without asking.")] = False,
    undo: Annotated[bool, Parameter(negative="", help="Take Spindle out again.")] = False,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Put Spindle into the configuration of an MCP client.

    The change is shown first, and a backup is kept beside the file. Everything else in the file stays as it is.
    """
    if client not in CLIENTS:
        raise build_unknown_error("client", client, CLIENTS, f"known: {', '.join(CLIENTS)}")
    if not _NAME.fullmatch(name):
        raise CommandError(f"--name: expected letters, digits, - and _, got {name!r:.80}", exit_code=USAGE)
    chosen, machine = CLIENTS[client], Machine.here()
    location = _find_location(chosen, machine, "project" if project else "user")
    path = machine.expand(location.path)
    if undo:
        change = plan_removal(path, location, name)
        if change is None:
            raise CommandError(f"{path} has no entry {name!r}", exit_code=NOT_FOUND, hint="`spindle discover` lists it")
    else:
        entry = _build_http(chosen, http, token_env, profile) if http is not None else None
        entry = entry or _build_stdio(chosen, where, profile, token_env)
        change = plan_installation(path, location, name, entry)
    return _apply(change, chosen, name, is_undo=undo, dry_run=dry_run, yes=yes, json=json)


def _find_location(client: KnownClient, machine: Machine, scope: Scope) -> Location:
    location = client.find_location(machine, scope)
    if location is None:
        hint = "leave --project out" if scope == "project" else "--project writes the file of the working folder"
        kind = "a project" if scope == "project" else "the user"
        raise CommandError(f"{client.title} has no file for {kind} that can be edited", exit_code=USAGE, hint=hint)
    folder = machine.expand(location.path).parent
    if scope == "user" and not folder.is_dir():
        raise CommandError(
            f"{client.title} does not seem to be installed: {folder} does not exist",
            exit_code=NOT_FOUND,
            hint="start it once, or create the folder",
        )
    return location


def _build_http(client: KnownClient, url: str, token_env: str | None, profile: str | None) -> JsonObject:
    if profile is not None:
        raise CommandError(
            "--profile cannot be used with --http: the bearer token selects the profile", exit_code=USAGE
        )
    if client.url_key is None:
        raise CommandError(
            f"{client.title} cannot name a URL in its file", exit_code=USAGE, hint="leave --http out; it starts Spindle"
        )
    if not re.match(r"https?://[^/\s]", url):
        raise CommandError("--http: expected a URL that starts with http:// or https://", exit_code=USAGE)
    if token_env is not None and not _VARIABLE.fullmatch(token_env):
        raise CommandError(f"--token-env: expected the name of a variable, got {token_env!r:.80}", exit_code=USAGE)
    if token_env is not None and client.variable is None:
        raise CommandError(
            f"{client.title} cannot read a header from a variable", exit_code=USAGE, hint="add the header by hand"
        )
    return build_url_entry(client, url, token_env)


def _build_stdio(client: KnownClient, where: ConfigOptions, profile: str | None, token_env: str | None) -> JsonObject:
    if token_env is not None:
        raise CommandError("--token-env needs --http", exit_code=USAGE)
    # A file named by --config needs no trust: so a found one must be trusted before it is named in the entry.
    config = where.load()
    build_filter(config, profile)
    if config.file is None:
        print_message(
            "no spindle.toml was found: the client will get the kit's tools", "`spindle add` creates one with a server"
        )
    named = [] if where.config is not None or config.file is None else ["--config", str(config.file)]
    words = [find_own_command(), *named, *list_config_arguments(where), "serve", "--stdio"]
    return build_entry(client, [*words, *(["--profile", profile] if profile is not None else [])])


def _apply(
    change: Change, client: KnownClient, name: str, *, is_undo: bool, dry_run: bool, yes: bool, json: bool
) -> int:
    report: JsonObject = {"client": client.name, "path": str(change.path), "changed": False, "backup": None}
    if not change.is_needed:
        return _report(report, f"{change.path} already has {name!r}: nothing to do", None, json=json)
    if not json:
        print_diff(change)
    if dry_run:
        return _report(report, "nothing was written (--dry-run)", None, json=json)
    if not yes and not confirm("Write it? [y/N] "):
        raise CommandError(
            f"{change.path} was not changed", exit_code=REFUSED, hint="--yes writes it unasked, --dry-run only shows it"
        )
    if change.before is None:
        _create_folder(change.path.parent)
    backup = change.write(keep_backup=not is_undo)
    report |= {"changed": True, "backup": None if backup is None else str(backup)}
    if is_undo:
        way = "is as it was" if change.restored is not None else "is gone" if change.after is None else "lost the entry"
        return _report(report, f"{change.path} {way}", f"for {client.title} to notice: {client.restart}", json=json)
    kept = "" if backup is None else f"; the old file is {backup.name}"
    hint = f"for {client.title} to notice: {client.restart}; `spindle install {client.name} --undo` takes it out"
    return _report(report, f"Spindle is in {change.path}{kept}", hint, json=json)


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot create {folder}: {error.strerror}", exit_code=1) from error


def print_diff(change: Change) -> None:
    """Print the change as a unified diff."""
    out = Output()
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in change.diff():
        out.line((line, styles.get(line[:1], "dim")))


def _report(report: JsonObject, message: str, hint: str | None, *, json: bool) -> int:
    if json:
        Output().stream.write(f"{json_format.dumps(report)}\n")
        return OK
    out = stderr()
    out.line(message)
    if hint is not None:
        out.line(("hint:", "cyan"), f" {hint}")
    return OK
