"""`spindle add`: add an MCP server to `spindle.toml`, or remove one; comments and formatting stay."""

import re
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from spindle.cli.clients.catalogue import CLIENTS, Machine
from spindle.cli.clients.completers import client_servers
from spindle.cli.clients.discovery import FoundServer, find_files
from spindle.cli.clients.entries import find_secret_word, normalize_entry
from spindle.cli.clients.installation import Change
from spindle.cli.commands.install import print_diff
from spindle.cli.completers import server_names
from spindle.cli.config.editing import CREATED, EditedConfig, find_editable, put_server, remove_server
from spindle.cli.config.schema import looks_like_secret
from spindle.cli.main import OK, USAGE
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json, build_unknown_error
from spindle.cli.output import Output, stderr
from spindle.errors import CommandError
from spindle.json_types import JsonObject

Pairs = Annotated[tuple[str, ...], Parameter(negative="")]
_SECRET_HINT = "store it as a secret and name it: --env-secret {key}=NAME; docs/secrets.md says where secrets come from"  # noqa: S105


def add(
    name: Annotated[str | None, Parameter(help="The name of the server.", completer=server_names)] = None,
    /,
    *target: Annotated[str, Parameter(help="Its URL, or `--` and the command that starts it.")],
    env: Annotated[Pairs, Parameter(name="--env", help="Set a variable, as K=V; repeatable.")] = (),
    env_secret: Annotated[
        Pairs, Parameter(name="--env-secret", help="Set a variable from a secret, as K=SECRET; repeatable.")
    ] = (),
    header: Annotated[Pairs, Parameter(name="--header", help="Send a header, as K=V; repeatable.")] = (),
    header_secret: Annotated[
        Pairs, Parameter(name="--header-secret", help="Send a header from a secret, as K=SECRET; repeatable.")
    ] = (),
    cwd: Annotated[str | None, Parameter(help="Start the command in this folder.")] = None,
    trusted: Annotated[bool, Parameter(negative="", help="Do not fence its results.")] = False,
    from_: Annotated[
        str | None,
        Parameter(name="--from", help="Take it over from a client, as CLIENT:SERVER.", completer=client_servers),
    ] = None,
    remove: Annotated[bool, Parameter(negative="", help="Remove the server instead.")] = False,
    force: Annotated[bool, Parameter(negative="", help="Replace a server of that name.")] = False,
    project: Annotated[
        bool, Parameter(negative="", help="Without a spindle.toml, create it in the working folder.")
    ] = False,
    dry_run: Annotated[bool, Parameter(negative="", help="Only show what would change.")] = False,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Add an MCP server to spindle.toml.

    For a command: spindle add files -- npx -y @modelcontextprotocol/server-filesystem /srv
    For a URL: spindle add search https://search.example/mcp --header-secret Authorization=search_token
    """
    if from_ is not None and (remove or target):
        raise CommandError("--from cannot be used with a target or --remove", exit_code=USAGE)
    server = None if from_ is None else _find_server(from_)
    named = name or (None if server is None else to_name(server.name))
    if named is None:
        raise CommandError("expected the name of the server", exit_code=USAGE, hint="spindle add NAME -- COMMAND …")
    place = find_editable(where.config, in_project=project)
    if remove:
        if target:
            raise CommandError("--remove takes only a name", exit_code=USAGE)
        edited = remove_server(place, named)
    else:
        entry = _build_target(target) if server is None else normalize_entry(server.entry)
        secrets = {"env": _split(env_secret, "--env-secret"), "headers": _split(header_secret, "--header-secret")}
        given = {"env": _split(env, "--env"), "headers": _split(header, "--header")}
        edited = put_server(place, named, _complete(entry, given, secrets, cwd=cwd, trusted=trusted), replace=force)
    return _finish(edited, named, is_removal=remove, dry_run=dry_run, json=json)


def _build_target(target: Sequence[str]) -> JsonObject:
    if not target:
        raise CommandError(
            "expected a URL or a command",
            exit_code=USAGE,
            hint="spindle add NAME -- COMMAND …, or spindle add NAME https://…",
        )
    if re.match(r"https?://|\$\{", target[0]) and len(target) == 1:
        if not target[0].isprintable() or " " in target[0]:  # no server could be started with it
            raise CommandError("the URL contains a space or a control character", exit_code=USAGE)
        return {"url": target[0]}
    return {"command": target[0], "args": list(target[1:])}


def _complete(
    entry: JsonObject,
    given: dict[str, dict[str, str]],
    secrets: dict[str, dict[str, str]],
    *,
    cwd: str | None,
    trusted: bool,
) -> JsonObject:
    """Return the entry with the options; a value that a secret replaces is dropped."""
    for table, names in (("env", "env_secrets"), ("headers", "header_secrets")):
        plain = {**entry.pop(table, {}), **given[table]}
        plain = {key: value for key, value in plain.items() if key not in secrets[table]}
        for key, value in plain.items():
            if looks_like_secret(key, value):
                option = "--env-secret" if table == "env" else "--header-secret"
                raise CommandError(
                    f"{table}.{key} looks like a credential, which must not be stored in spindle.toml",
                    exit_code=USAGE,
                    hint=_SECRET_HINT.format(key=key).replace("--env-secret", option),
                )
        if plain:
            entry[table] = plain
        if secrets[table]:
            entry[names] = secrets[table]
    word = find_secret_word([entry["command"], *entry["args"]] if "command" in entry else [entry.get("url", "")])
    if word is not None:
        raise CommandError(
            f"{word} looks like a credential, which must not be stored in spindle.toml",
            exit_code=USAGE,
            hint="write '${NAME}' in its place, which is read from the environment, or use --env-secret K=NAME",
        )
    if "command" in entry and not entry["args"]:
        del entry["args"]
    return entry | ({"cwd": cwd} if cwd is not None else {}) | ({"trusted": True} if trusted else {})


def _split(pairs: Sequence[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise CommandError(f"{option}: expected K=V", exit_code=USAGE)  # not quoted: it may be a secret
        found[key] = value
    return found


def _find_server(spot: str) -> FoundServer:
    client, colon, name = spot.partition(":")
    if not colon or client not in CLIENTS:
        raise build_unknown_error("client", client, CLIENTS, "expected CLIENT:SERVER; `spindle discover` lists both")
    found = {each.name: each for file in find_files(Machine.here(), [CLIENTS[client]]) for each in file.servers}
    if name not in found:
        raise build_unknown_error(f"server of {client}", name, found, f"`spindle discover {client}` lists them")
    if found[name].is_spindle or found[name].kind == "unknown":
        why = "starts Spindle itself" if found[name].is_spindle else "has neither a command nor a URL"
        raise CommandError(f"{spot} {why}", exit_code=USAGE)
    return found[name]


def to_name(name: str) -> str:
    """Return a valid name of a server, made of a name that a client uses."""
    plain = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_.-]", "-", name))[:64].strip("_.-")
    return plain or "server"


def _finish(edited: EditedConfig, name: str, *, is_removal: bool, dry_run: bool, json: bool) -> int:
    change = Change(path=edited.path, before=edited.before, after=edited.after)
    if not json:
        print_diff(change)
    if not dry_run:
        edited.write()
    trust = edited.describe_trust()
    if json:
        report = {"path": str(edited.path), "server": name, "written": not dry_run, "trusted": trust != "untrusted"}
        Output().json({**report, "created": edited.before is None})
        return OK
    out = stderr()
    if dry_run:
        out.line("nothing was written (--dry-run)")
        return OK
    verb = f"removed {name} from" if is_removal else f"added {name} to"
    created = f", {CREATED}" if edited.before is None else ""
    out.line(f"{verb} {edited.path}{created}")
    if trust == "untrusted":
        out.line(("hint:", "cyan"), " it is not trusted yet: `spindle trust` shows what it does, and accepts it")
    elif not is_removal:
        out.line(("hint:", "cyan"), f" `spindle list --server {name}` starts it and lists its tools")
    return OK
