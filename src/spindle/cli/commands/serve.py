"""`spindle serve`: serve the configured tools as one MCP server over HTTP or stdio."""

import json as _json
import logging
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

import anyio
from cyclopts import Parameter
from typing_extensions import override

from spindle.cli.config.loader import Config
from spindle.cli.main import OK
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, ProfileName
from spindle.cli.output import Output, escape_controls, flatten, print_message
from spindle.cli.runtime import Runtime, build_filter, open_runtime
from spindle.cli.runtime_tools import load_object
from spindle.errors import UpstreamRequiredError
from spindle.extras import missing_extra
from spindle.telemetry.logs import JsonFormatter, redact_text
from spindle.tools.filters import ToolFilter

LogLevel = Literal["debug", "info", "warning", "error"]

_MAX_CHARS: Final = 2_000


def log_to_stderr(level: LogLevel, *, as_json: bool) -> None:
    """Log to stderr at a level, as text lines or as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else LineFormatter())
    wanted = logging.getLevelNamesMapping()[level.upper()]
    # Below WARNING, libraries log session ids and full messages.
    logging.basicConfig(level=max(logging.WARNING, wanted), handlers=[handler])
    logging.getLogger("spindle").setLevel(wanted)


class LineFormatter(logging.Formatter):
    """Formatter that writes each record as one line, with control characters escaped and tokens masked."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Format the record."""
        event = getattr(record, "event", None)
        if isinstance(event, Mapping) and cast("Mapping[str, Any]", event).get("name") == "tool_call":
            told = _call(cast("Mapping[str, Any]", event))
        else:
            told = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            # Only the type: the message may contain tool arguments.
            told = f"{told} ({type(record.exc_info[1]).__qualname__})"
        line = redact_text(escape_controls(flatten(told)), _MAX_CHARS)
        return f"{record.levelname} {record.name}: {line}"


def _call(event: Mapping[str, Any]) -> str:
    seconds = f"{event['duration_ms']:g} ms"
    return f"{event['tool']} {event['code'] or 'ok'} in {seconds} ({event['tool_call_id']}, {event['session_id']})"


UPSTREAM_WAIT_SECONDS = 10.0
"""How long the first tool list waits for upstream servers, since many clients list tools only once."""


def serve(
    *,
    stdio: Annotated[
        bool,
        Parameter(negative="", help="Serve over standard input and output, for a client that starts this command."),
    ] = False,
    host: Annotated[str | None, Parameter(help="Listen on this address.")] = None,
    port: Annotated[int | None, Parameter(help="Listen on this port; 0 selects a free one.")] = None,
    profile: ProfileName = None,
    log_level: Annotated[LogLevel, Parameter(help="Minimum level to log on standard error.")] = "warning",
    log_json: Annotated[bool, Parameter(negative="", help="Log one JSON object per line.")] = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Serve the tools to MCP clients until Ctrl-C; running calls may finish and are recorded."""
    missing = [name for name in ("mcp", "starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise missing_extra("server", purpose="spindle serve", package=missing[0])
    config = where.load_for_tools()
    build_filter(config, profile)
    log_to_stderr(log_level, as_json=log_json)
    if stdio:
        anyio.run(_over_stdio, config, profile)
    else:
        anyio.run(_over_http, config, where, profile, host, port)
    return OK


async def _over_stdio(config: Config, profile: str | None) -> None:
    from spindle.mcp.server.serve import propagate_changes, serve_stdio  # noqa: PLC0415 - importing the SDK takes 0.5 s
    from spindle.mcp.server.tool_server import Caller, ToolServer  # noqa: PLC0415

    caller = Caller(key="stdio", profile=profile)
    async with open_runtime(config, interceptors=_observers(), wait_for_servers=False) as house:
        settled, manners = anyio.Event(), _server_options(house)
        server = ToolServer(house.executor, house.registry, identify=lambda _ctx: caller, settled=settled, **manners)
        async with propagate_changes(server, house.on_change), anyio.create_task_group() as tasks:
            tasks.start_soon(_start_upstream, house, settled)
            await serve_stdio(server, stop_seconds=config.server.stop_seconds)
            tasks.cancel_scope.cancel()


async def _over_http(
    config: Config, where: ConfigOptions, profile: str | None, host: str | None, port: int | None
) -> None:
    from spindle.mcp.server.http import HttpSettings, http_app, identify_caller  # noqa: PLC0415
    from spindle.mcp.server.serve import bind_socket, propagate_changes, serve_http  # noqa: PLC0415
    from spindle.mcp.server.tool_server import ToolServer  # noqa: PLC0415

    section = config.server
    door = HttpSettings(
        host=section.host if host is None else host,
        port=section.port if port is None else port,
        path=section.path,
        tokens=hash_tokens(config, os.environ),
        allowed_hosts=section.allowed_hosts,
        allowed_origins=section.allowed_origins,
    )
    async with AsyncExitStack() as stack:
        listening = stack.enter_context(bind_socket(door))
        house = await stack.enter_async_context(open_runtime(config, interceptors=_observers(), wait_for_servers=False))
        settled, manners = anyio.Event(), _server_options(house, profile)
        server = ToolServer(house.executor, house.registry, identify=identify_caller, settled=settled, **manners)
        app = http_app(server, door, health=lambda: _health(house))
        async with propagate_changes(server, house.on_change), anyio.create_task_group() as tasks:
            tasks.start_soon(_start_upstream, house, settled)
            await serve_http(
                server,
                app,
                door,
                listening=listening,
                stop_seconds=section.stop_seconds,
                on_ready=lambda address: _announce(house, where, address, has_token=bool(door.tokens)),
                on_stopping=lambda: _print_stopping(server.running_calls, section.stop_seconds),
            )
            tasks.cancel_scope.cancel()


async def _start_upstream(runtime: Runtime, settled: anyio.Event) -> None:
    """Wait for the upstream servers in the background; tool lists wait at most `SETTLE_SECONDS` for them."""
    try:
        if runtime.servers is not None:
            with anyio.move_on_after(UPSTREAM_WAIT_SECONDS):
                await runtime.servers.ready()
    except UpstreamRequiredError as error:
        # The client retries the connection; until it is ready, /health reports it as failing.
        print_message(str(error), "serving without it; the connection is retried")
    finally:
        settled.set()
    _print_upstream(runtime)


def _print_upstream(runtime: Runtime) -> None:
    out = Output(sys.stderr)
    for each in [] if runtime.servers is None else runtime.servers.status():
        if each.state == "ready":
            out.line(f"{out.style('✓', 'green')} {each.name}: {each.tools} tool{'' if each.tools == 1 else 's'}")
    sys.stderr.flush()


def _server_options(runtime: Runtime, profile: str | None = None) -> dict[str, Any]:
    section = runtime.config.server

    def filter_for(named: str | None) -> ToolFilter | None:
        return runtime.get_filter(named or profile)

    return {
        "name": section.name,
        "version": version("spindle"),
        "instructions": section.instructions,
        "is_fenced": section.fence,
        "filter_of": filter_for,
        "working_dir": str(runtime.config.root),
        "offers": _load_extra_server(runtime.config),
    }


def _load_extra_server(config: Config) -> Any:
    """Load the SDK server whose prompts and resources are served with the tools."""
    spot = config.server.offers
    if spot is None:
        return None
    from mcp.server.lowlevel import Server  # noqa: PLC0415 - an extra

    value = load_object(config, spot, ("server", "offers"))
    if not isinstance(value, Server):
        kind = type(value).__name__
        raise config.error(("server", "offers"), f"expected a mcp.server.lowlevel.Server, but {spot} is a {kind}")
    return cast("Any", value)


def _observers() -> Sequence[Any]:
    from spindle.telemetry.logs import log_calls  # noqa: PLC0415 - only needed here

    if find_spec("opentelemetry") is None:
        return (log_calls(),)
    from spindle.telemetry.instrumentation import telemetry  # noqa: PLC0415 - an extra

    return (telemetry(), log_calls())


def hash_tokens(config: Config, environ: Mapping[str, str]) -> dict[str, str | None]:
    """Map the hash of each bearer token to its profile.

    Raises:
        InvalidConfigError: The variable of a token is not set, or two profiles have the same token.
    """
    from spindle.mcp.server.http import token_hash  # noqa: PLC0415 - importing the SDK takes 0.5 s

    tokens: dict[str, str | None] = {}
    for name, entry in config.profiles.items():
        if entry.token_env is None and entry.token_sha256 is None:
            continue
        if entry.token_env is not None and not environ.get(entry.token_env):
            raise config.error(
                ("profiles", name, "token_env"), f"the environment variable {entry.token_env} is not set"
            )
        given = entry.token_sha256 or token_hash(environ[entry.token_env or ""])
        if given.lower() in tokens:
            raise config.error(
                ("profiles", name), f"has the same token as {tokens[given.lower()]!r}; use a different one"
            )
        tokens[given.lower()] = name
    return tokens


def _health(runtime: Runtime) -> dict[str, Any]:
    servers = [] if runtime.servers is None else runtime.servers.status()
    is_failing = any(each.required and each.state != "ready" and each.error is not None for each in servers)
    told = [{name: value for name, value in asdict(each).items() if value is not None} for each in servers]
    return {"status": "failing" if is_failing else "ok", "tools": len(runtime.registry), "servers": told}


def _announce(runtime: Runtime, where: ConfigOptions, address: str, *, has_token: bool) -> None:
    out = Output(sys.stderr)
    own, chosen = _own_command(), _config_arguments(where)
    # A client starts the command in another folder, where it would not find this configuration.
    named = [] if where.config is not None or runtime.config.file is None else ["--config", str(runtime.config.file)]
    entry: dict[str, Any] = {"type": "http", "url": address}
    if has_token:
        entry["headers"] = {"Authorization": "Bearer ${SPINDLE_TOKEN}"}
    names = [] if runtime.servers is None else [each.name for each in runtime.servers.status()]
    count = len(runtime.registry)
    own_tools = [f"{count} tool{'' if count == 1 else 's'}"] if count or not names else []
    theirs = [f"the tools of {' and '.join(names)}"] if names else []
    served = " and ".join([*own_tools, *theirs])
    out.line(f"{out.style('Spindle serves', 'bold')} {served} at {out.style(address, 'cyan')}")
    if not has_token:
        out.line(out.style("No token is configured: every program on this machine may call these tools.", "dim"))
    out.line()
    out.line("For your MCP client's configuration:")
    out.line(f"  {_json.dumps({'mcpServers': {'spindle': entry}})}")
    out.line("Or let the client start it:")
    started = {"command": own, "args": [*named, *chosen, "serve", "--stdio"]}
    out.line(f"  {_json.dumps({'mcpServers': {'spindle': started}})}")
    out.line()
    typed = shlex.join(["spindle" if shutil.which("spindle") == own else os.path.relpath(own), *chosen])
    first = "call calculate expression=6*7" if "calculate" in runtime.registry else "list"
    out.line(f"Try, in another terminal:  {out.style(f'{typed} {first}', 'cyan')}")
    out.line(out.style("Ctrl-C stops the server after running calls have finished.", "dim"))
    sys.stderr.flush()


def _print_stopping(running_calls: int, seconds: float) -> None:
    if running_calls:
        calls = "1 running call" if running_calls == 1 else f"{running_calls} running calls"
        print_message(f"stopping; waiting up to {seconds:g} s for {calls}", "press Ctrl-C again to stop now")


def _own_command() -> str:
    """Return the path of the `spindle` command, for clients with another PATH."""
    beside = Path(sys.executable).with_name("spindle")
    return str(beside) if beside.exists() else shutil.which("spindle") or "spindle"


def _config_arguments(where: ConfigOptions) -> list[str]:
    """Return the options that select the same configuration in another command."""
    options = [("--config", where.config), *(("--mcp-config", each) for each in where.mcp_config)]
    options.append(("--state", where.state))
    return [word for name, path in options if path is not None for word in (name, str(path.absolute()))]
