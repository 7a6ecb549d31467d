"""`spindle discover`: find the MCP configurations of installed clients."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from spindle.cli.clients.catalogue import CLIENTS, Machine
from spindle.cli.clients.completers import client_names
from spindle.cli.clients.discovery import FoundFile, FoundServer, find_files
from spindle.cli.main import OK
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json, build_unknown_error
from spindle.cli.output import Output, print_message, stderr
from spindle.json_types import JsonObject

_IMPORTABLE = {("mcpServers",), ("servers",)}


def discover(
    client: Annotated[str | None, Parameter(help="Only this client.", completer=client_names)] = None,
    /,
    *,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,  # noqa: ARG001 - so that global options are accepted
) -> int:
    """Find the MCP configurations of installed clients, and list the servers in them.

    Only the files that clients document are read, and nothing in them is started. Secrets are masked.
    """
    if client is not None and client not in CLIENTS:
        raise build_unknown_error("client", client, CLIENTS, f"known: {', '.join(CLIENTS)}")
    found = find_files(Machine.here(), None if client is None else [CLIENTS[client]])
    out = Output()
    if json:
        out.json({"files": [_file_to_json(each) for each in found]})
        return OK
    if not found:
        what = "no MCP configuration was found" if client is None else f"no configuration of {client} was found"
        print_message(what, f"known clients: {', '.join(CLIENTS)}")
        return OK
    for number, file in enumerate(found):
        _print_file(out, file, is_first=not number)
    _print_advice(found)
    return OK


def _print_file(out: Output, file: FoundFile, *, is_first: bool) -> None:
    if not is_first:
        out.line()
    mark = "Spindle is in it" if any(each.is_spindle for each in file.servers) else ""
    out.line((file.client.title, "bold"), f"  {shorten_home(file.path)}", (f"  {mark}" if mark else "", "green"))
    if file.problem is not None:
        out.line(("  cannot be used: " if not file.servers else "  ", "red"), file.problem)
    if not file.servers:
        if file.problem is None:
            out.line(("  no servers", "dim"))
        return
    rows = [[f"  {each.name}", _describe(each), each.target or "neither a command nor a URL"] for each in file.servers]
    out.entries(None, rows, ["cyan", "dim"])


def _describe(server: FoundServer) -> str:
    words = ["Spindle" if server.is_spindle else server.kind]
    if not server.is_enabled:
        words.append("off")
    if server.project is not None:
        words.append(f"in {shorten_home(Path(server.project))}")
    return ", ".join(words)


def _print_advice(found: list[FoundFile]) -> None:
    out = stderr()
    others = [(file, each) for file in found for each in file.servers if not each.is_spindle and each.kind != "unknown"]
    if others:
        file, server = others[0]
        out.line()
        out.line(("hint:", "cyan"), f" take one over: spindle add --from {file.client.name}:{server.name}")
        whole = next((each for each, _ in others if each.location.table in _IMPORTABLE), None)
        if whole is not None:
            path = shorten_home(whole.path)
            out.line(("hint:", "cyan"), f' or a whole file, in spindle.toml: [mcp] import = ["{path}"]')
    missing = [file.client.name for file in found if file.location.is_installable and file.problem is None]
    installed = {file.client.name for file in found if any(each.is_spindle for each in file.servers)}
    if free := [name for name in dict.fromkeys(missing) if name not in installed]:
        out.line(("hint:", "cyan"), f" put Spindle into a client: spindle install {free[0]}")


def shorten_home(path: Path) -> str:
    """Return a path with `~` for the home folder."""
    home = os.environ.get("HOME")
    return f"~/{path.relative_to(home)}" if home and path.is_relative_to(home) and path != Path(home) else str(path)


def _file_to_json(file: FoundFile) -> JsonObject:
    return {
        "client": file.client.name,
        "title": file.client.title,
        "path": str(file.path),
        "scope": file.location.scope,
        "format": file.location.format,
        "problem": file.problem,
        "spindle": any(each.is_spindle for each in file.servers),
        "servers": [
            {
                "name": each.name,
                "kind": each.kind,
                "target": each.target,
                "project": each.project,
                "variables": list(each.variables),
                "enabled": each.is_enabled,
                "spindle": each.is_spindle,
            }
            for each in file.servers
        ],
    }
