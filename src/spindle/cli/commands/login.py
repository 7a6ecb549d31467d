"""`spindle login SERVER`: log in to an upstream server that uses OAuth, log out, and list the logins."""

import dataclasses
import webbrowser
from datetime import UTC, datetime
from typing import Annotated

import anyio
from anyio import to_thread
from cyclopts import Parameter

from spindle.cli.config.loader import Config
from spindle.cli.main import NOT_FOUND, OK, USAGE
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json, build_unknown_error
from spindle.cli.output import Output, print_message, stderr
from spindle.cli.runtime_logins import build_logins
from spindle.cli.runtime_servers import build_specs
from spindle.errors import CommandError
from spindle.mcp import oauth
from spindle.mcp.spec import ServerSpec

DEFAULT_USER = "default"


def login(
    server: Annotated[str | None, Parameter(help="The name of the server, of [mcp.servers.NAME].")] = None,
    /,
    *,
    user: Annotated[str, Parameter(help="Whose login it is; behind a gateway, the name that its errors show.")] = (
        DEFAULT_USER
    ),
    logout: Annotated[bool, Parameter(negative="", help="Forget the login, and withdraw it where possible.")] = False,
    list_logins: Annotated[
        bool, Parameter(name="--list", negative="", help="List the logins and their states.")
    ] = False,
    no_browser: Annotated[bool, Parameter(negative="", help="Only print the address to open.")] = False,
    timeout: Annotated[float, Parameter(help="Seconds to wait for the browser.")] = 300,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Log in to an upstream server that uses OAuth.

    The tokens are kept encrypted in the state folder, and are sent only to this server with the calls of this user.
    """
    config = where.load_for_tools()
    specs = {spec.name: spec for spec in build_specs(config) if spec.oauth is not None}
    logins = build_logins(config, specs.values())
    if list_logins:
        return _list(specs, logins, json=json)
    spec = _find_spec(config, specs, server)
    if logins is None:
        raise CommandError("no server uses OAuth", exit_code=USAGE)
    if logout:
        return anyio.run(_log_out, logins, spec, user)
    anyio.run(_log_in, logins, spec, user, timeout, not no_browser)
    status = logins.describe(spec, user)
    if json:
        Output().json(dataclasses.asdict(status))
    else:
        print_message(f"logged in to {spec.name} as user {user!r}{_describe_scope(status)}")
    return OK


def _find_spec(config: Config, specs: dict[str, ServerSpec], name: str | None) -> ServerSpec:
    if name is None:
        hint = f"servers with OAuth: {', '.join(specs)}" if specs else "set oauth = true for a server with a url"
        raise CommandError("name the server to log in to", exit_code=USAGE, hint=hint)
    if name in specs:
        return specs[name]
    if name in config.servers:
        raise CommandError(
            f"server {name!r} does not use OAuth, or is not enabled",
            exit_code=NOT_FOUND,
            hint=f"set oauth = true under [mcp.servers.{name}]",
        )
    raise build_unknown_error("server", name, config.servers, "`spindle doctor` shows the configured servers")


async def _log_in(logins: "oauth.Logins", spec: ServerSpec, user: str, seconds: float, opens_browser: bool) -> None:  # noqa: FBT001  of anyio.run
    port = None if spec.oauth is None else spec.oauth.redirect_port
    async with oauth.listen_for_redirect(port) as listener:
        pending = await logins.begin(spec, user, redirect_uri=listener.redirect_uri)
        out = stderr()
        out.line(f"Log in to {spec.name} at {pending.server.issuer}:")
        out.text(pending.authorization_url)
        if opens_browser:
            await to_thread.run_sync(webbrowser.open, pending.authorization_url, abandon_on_cancel=True)
        answer = await listener.wait(pending.state, seconds=seconds)
        await logins.finish(spec, user, pending, answer)


async def _log_out(logins: "oauth.Logins", spec: ServerSpec, user: str) -> int:
    if not logins.describe(spec, user).issuer and user not in logins.list_users(spec):
        raise CommandError(f"user {user!r} has not logged in to {spec.name}", exit_code=NOT_FOUND)
    is_withdrawn = await logins.withdraw(spec, user)
    logins.remove(spec, user)
    note = "" if is_withdrawn else "; its authorization server did not withdraw the tokens"
    print_message(f"logged out of {spec.name} as user {user!r}{note}")
    return OK


def _list(specs: dict[str, ServerSpec], logins: "oauth.Logins | None", *, json: bool) -> int:
    found = [] if logins is None else [status for spec in specs.values() for status in list_statuses(logins, spec)]
    out = Output()
    if json:
        out.json({"logins": [dataclasses.asdict(status) for status in found]})
    elif found:
        rows = [[each.server, each.user, each.state, _format_time(each.expires_at), each.scope or ""] for each in found]
        out.table(["server", "user", "state", "expires", "scopes"], rows, ["bold", "cyan"])
    else:
        print_message("no server uses OAuth", "set oauth = true for a server with a url")
    return OK


def list_statuses(logins: "oauth.Logins", spec: ServerSpec) -> "list[oauth.LoginStatus]":
    """Return the states of all logins at a server; of the default user if there is none."""
    return [logins.describe(spec, user) for user in logins.list_users(spec) or [DEFAULT_USER]]


def _describe_scope(status: "oauth.LoginStatus") -> str:
    return f", scopes: {status.scope}" if status.scope else ""


def _format_time(moment: float | None) -> str:
    return "" if moment is None else f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC"
