"""What `spindle serve` prints when it is ready, and when it stops."""

import json
import os
import shlex
import shutil
import sys

from spindle.cli.options import ConfigOptions, find_own_command, list_config_arguments
from spindle.cli.output import Output, print_message
from spindle.cli.runtime import Runtime
from spindle.json_types import JsonObject
from spindle.mcp.server.http import EVERYWHERE, HttpSettings


def get_host(http: HttpSettings) -> str:
    """Return the host of the URL of a server; no client can connect to the address of all networks."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(http.host, http.host)  # noqa: S104  compared with, not bound
    return f"[{host}]" if ":" in host else host


def announce(runtime: Runtime, where: ConfigOptions, address: str, http: HttpSettings, link: str | None) -> None:
    """Print where the server is, how clients connect to it, and the one-time link to its page."""
    out, has_token = Output(sys.stderr), http.needs_token
    own, chosen = find_own_command(), list_config_arguments(where)
    # A client starts the command in another folder, where it would not find this configuration.
    named = [] if where.config is not None or runtime.config.file is None else ["--config", str(runtime.config.file)]
    entry: JsonObject = {"type": "http", "url": address}
    if http.tokens:
        entry["headers"] = {"Authorization": "Bearer ${SPINDLE_TOKEN}"}
    names = [] if runtime.servers is None else [each.name for each in runtime.servers.status()]
    count = len(runtime.registry)
    own_tools = [f"{count} tool{'' if count == 1 else 's'}"] if count or not names else []
    theirs = [f"the tools of {' and '.join(names)}"] if names else []
    served = " and ".join([*own_tools, *theirs])
    out.line(("Spindle serves", "bold"), f" {served} at ", (address, "cyan"))
    if link is not None:
        out.line(("Look at it in a browser: ", "bold"), (link, "cyan"))
    if not has_token:
        out.line(("No token is configured: every program on this machine may call these tools.", "dim"))
    if http.host in EVERYWHERE:
        port = address.split("://")[1].split("/", maxsplit=1)[0].rpartition(":")[2]
        names = [each.removesuffix(":*") + (f":{port}" if each.endswith(":*") else "") for each in http.allowed_hosts]
        if names:
            others = ", ".join(f"{http.scheme}://{name}{http.path}" for name in names)
            out.line("From other machines: ", (others, "cyan"))
        else:
            out.line(("Other machines are refused until [server] allowed_hosts has the name they use.", "dim"))
    out.line()
    out.line("For your MCP client's configuration:")
    out.line(f"  {json.dumps({'mcpServers': {'spindle': entry}})}")
    out.line("Or let the client start it:")
    started = {"command": own, "args": [*named, *chosen, "serve", "--stdio"]}
    out.line(f"  {json.dumps({'mcpServers': {'spindle': started}})}")
    out.line()
    first = ["call", "calculate", "expression=6*7"] if "calculate" in runtime.registry else ["list"]
    # Quoted: zsh refuses a word with * that matches no file.
    typed = shlex.join(["spindle" if shutil.which("spindle") == own else os.path.relpath(own), *chosen, *first])
    out.line("Try, in another terminal:  ", (typed, "cyan"))
    out.line(("Ctrl-C stops the server after running calls have finished.", "dim"))
    sys.stderr.flush()


def print_stopping(running_calls: int, seconds: float) -> None:
    """Say for how long running calls are waited for."""
    if running_calls:
        calls = "1 running call" if running_calls == 1 else f"{running_calls} running calls"
        print_message(f"stopping; waiting up to {seconds:g} s for {calls}", "press Ctrl-C again to stop now")
