"""The gateway behind `spindle serve`: the runtime of a configuration as one MCP server, over HTTP or stdio."""

import gc
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import Any, cast

import anyio
from anyio import to_thread
from mcp.server.lowlevel import Server

from spindle import cli, execution, inspector, telemetry
from spindle.cli.announcement import announce, get_host, print_stopping
from spindle.cli.config.loader import Config
from spindle.cli.config.sources import RemoteStore
from spindle.cli.gateway_metrics import GatewayMetrics, build_call_metrics
from spindle.cli.options import ConfigOptions
from spindle.cli.output import Output, print_message
from spindle.cli.page import build_link, build_page, is_page_served
from spindle.cli.runtime import Runtime, open_runtime
from spindle.cli.runtime_lock import watch_lock
from spindle.cli.runtime_stores import check_spool, read_state_key
from spindle.cli.runtime_tools import load_object
from spindle.cli.sample_files import has_empty_scratch, write_samples
from spindle.cli.server_file import remove_record, write_record
from spindle.errors import UpstreamRequiredError, UsageError
from spindle.json_types import JsonObject
from spindle.mcp import lint
from spindle.mcp.client.lifecycle import ServerStatus
from spindle.mcp.oauth.settings import ResourceSettings
from spindle.mcp.server.cache_hints import check_scope
from spindle.mcp.server.http import HttpSettings, http_app, is_loopback
from spindle.mcp.server.http_callers import identify_caller, token_hash
from spindle.mcp.server.http_checks import MIN_TOKEN_BITS, estimate_bits
from spindle.mcp.server.http_page import PageRoute
from spindle.mcp.server.replicas import Replica
from spindle.mcp.server.serve import bind_socket, limit_spool, propagate_changes, serve_http, serve_stdio
from spindle.mcp.server.sessions import Caller
from spindle.mcp.server.shared_records import SharedRecords
from spindle.mcp.server.tasks.settings import TaskSettings
from spindle.mcp.server.tool_server import ToolServer
from spindle.telemetry.logs import log_calls
from spindle.telemetry.prometheus import CallMetrics
from spindle.tools.filters import ToolFilter
from spindle.trust.flow.policy import FlowPolicy
from spindle.trust.labels import SinkPolicy

UPSTREAM_WAIT_SECONDS = 10.0
"""How long the first tool list waits for upstream servers, since many clients list tools only once."""


SPOOL_CHECK_SECONDS = 60.0
"""Interval between the checks of the spool that /health reports."""


async def over_stdio(config: Config, profile: str | None) -> None:
    """Serve the tools over standard input and output."""
    caller = Caller(key=f"stdio {token_hex(8)}", profile=profile)  # a process is a session of its own
    async with open_runtime(config, interceptors=_observers(), wait_for_servers=False, profile=profile) as runtime:
        ready, options = anyio.Event(), _server_options(runtime)
        server = ToolServer(
            runtime.executor, runtime.registry, identify=lambda _ctx: caller, tools_ready=ready, **options
        )
        async with propagate_changes(server, runtime.on_change), anyio.create_task_group() as tasks:
            tasks.start_soon(_start_upstream, runtime, ready)
            tasks.start_soon(_limit_spool, runtime, server)
            tasks.start_soon(_watch_lock, runtime)
            tasks.start_soon(_lint_upstream, runtime)
            await serve_stdio(server, stop_seconds=config.server.stop_seconds)
            tasks.cancel_scope.cancel()


async def over_http(
    config: Config, where: ConfigOptions, profile: str | None, host: str | None, port: int | None
) -> None:
    """Serve the tools over HTTP; `host` and `port` override the configuration."""
    section, http = config.server, _build_http_settings(config, host, port)
    check_scope(section.cache_scope, has_tokens=http.needs_token)
    async with AsyncExitStack() as stack:
        listening = stack.enter_context(bind_socket(http))
        http = replace(http, port=listening.getsockname()[1])
        calls = build_call_metrics(config)
        runtime = await stack.enter_async_context(
            open_runtime(config, interceptors=_observers(calls), wait_for_servers=False, profile=profile)
        )
        if has_empty_scratch(config):
            await to_thread.run_sync(write_samples, config)
        ready, options = anyio.Event(), _server_options(runtime, profile)
        shared = build_shared(runtime)
        server = ToolServer(
            runtime.executor, runtime.registry, identify=identify_caller, tools_ready=ready, shared=shared, **options
        )
        spool_problems: list[str] = []
        metrics = GatewayMetrics(runtime=runtime, calls=calls)
        health = partial(_health, runtime, spool_problems, shared)
        page = build_page(runtime, server, http, profile, health) if is_page_served(config, http) else None
        app = http_app(
            server,
            http,
            health=health,
            shared=shared,
            metrics=(lambda: metrics.answer(server)) if section.metrics else None,
            refusals=metrics.refusals,
            page=None if page is None else PageRoute(app=page, owns=inspector.is_page_path),
        )
        link = None if page is None else await build_link(runtime, f"{http.scheme}://{get_host(http)}:{http.port}")

        def on_ready(address: str) -> None:
            record = write_record(config, address, page=page is not None, certificate=http.tls_certificate)
            stack.callback(remove_record, config, record)
            announce(runtime, where, address, http, link)

        if shared is not None:
            await stack.enter_async_context(shared.replica.open())
        stack.enter_context(freeze_objects())
        async with propagate_changes(server, runtime.on_change), anyio.create_task_group() as tasks:
            tasks.start_soon(_start_upstream, runtime, ready)
            tasks.start_soon(_watch_spool, runtime, spool_problems)
            tasks.start_soon(_watch_lock, runtime)
            tasks.start_soon(_limit_spool, runtime, server)
            tasks.start_soon(_lint_upstream, runtime)
            await serve_http(
                server,
                app,
                http,
                listening=listening,
                stop_seconds=section.stop_seconds,
                on_ready=on_ready,
                on_stopping=lambda: _stop(server, page, section.stop_seconds),
            )
            tasks.cancel_scope.cancel()


@contextmanager
def freeze_objects() -> Generator[None, None, None]:
    """Keep the objects of a started process, 130,000 and more, out of garbage collections until the block is left.

    A collection of them all stops every thread, and so the event loop, for 30 to 150 ms.
    """
    was_frozen = gc.get_freeze_count() > 0  # by a program that serves inside itself
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if not was_frozen:
            gc.unfreeze()


def _build_http_settings(config: Config, host: str | None, port: int | None) -> HttpSettings:
    section = config.server
    return HttpSettings(
        host=section.host if host is None else host,
        port=section.port if port is None else port,
        path=section.path,
        sse_path=section.sse_path,
        tokens=hash_tokens(config, os.environ, host=section.host if host is None else host),
        oauth=build_resource_settings(config),
        allowed_hosts=section.allowed_hosts,
        allowed_origins=section.allowed_origins,
        tls_certificate=_resolve(config, section.tls_certificate),
        tls_key=_resolve(config, section.tls_key),
        max_sessions=section.max_sessions,
        max_requests_per_minute=section.max_requests_per_minute,
    )


async def _limit_spool(runtime: Runtime, server: ToolServer) -> None:
    max_bytes = runtime.config.retention.max_bytes
    if max_bytes is not None:
        await limit_spool(server, runtime.spool, max_bytes=max_bytes, events=runtime.events)


async def _watch_lock(runtime: Runtime) -> None:
    if runtime.servers is not None:
        await watch_lock(runtime.config, runtime.servers, print_message)


async def _lint_upstream(runtime: Runtime) -> None:
    """Warn of poisoned definitions of upstream servers; `spindle.lock` is what withholds them."""
    if runtime.servers is not None:
        await lint.watch_poison(runtime.servers, runtime.events, ignore=runtime.config.lint.ignore)


async def _start_upstream(runtime: Runtime, ready: anyio.Event) -> None:
    """Wait for the upstream servers in the background; tool lists wait at most `UPSTREAM_WAIT_SECONDS` for them."""
    try:
        if runtime.servers is not None:
            with anyio.move_on_after(UPSTREAM_WAIT_SECONDS):
                await runtime.servers.ready()
    except UpstreamRequiredError as error:
        # The client retries the connection; until it is ready, /health reports it as failing.
        print_message(str(error), "serving without it; the connection is retried")
    finally:
        ready.set()
    _print_upstream(runtime)
    _warn_of_missing(runtime)


def _warn_of_missing(runtime: Runtime) -> None:
    """Warn of names in `[flow]` that no connected server has; a name may also belong to one that is not connected."""
    if runtime.config.flow is not None and runtime.servers is not None:
        connected = [each.name for each in runtime.servers.status() if each.state == "ready"]
        for key, what in cli.find_missing(runtime.config, runtime.registry, connected):
            runtime.events.warn(f"{'.'.join(key)}: {what}", source="flow")


def _print_upstream(runtime: Runtime) -> None:
    out = Output(sys.stderr)
    for each in [] if runtime.servers is None else runtime.servers.status():
        if each.state == "ready":
            held = f", {each.quarantined} in quarantine: see `spindle diff`" if each.quarantined else ""
            out.line(("✓", "green"), f" {each.name}: {each.tools} tool{'' if each.tools == 1 else 's'}{held}")
    sys.stderr.flush()


def build_shared(runtime: Runtime) -> SharedRecords | None:
    """Build what this gateway shares with its replicas; `None` unless the journal is a server's, which has notices."""
    states, notices = runtime.journal.states, runtime.journal.notices
    if not isinstance(runtime.config.journal, RemoteStore) or states is None or notices is None:
        return None
    replica = Replica(states, notices, execution.StateKey(read_state_key(runtime.config)))
    return SharedRecords(replica, runtime.spool, sinks=_get_waiting_policy(runtime))


def _get_waiting_policy(runtime: Runtime) -> FlowPolicy | SinkPolicy | None:
    """Return the policy by which calls may wait: about any tool, if a profile may ask about more than `[flow]`."""
    is_tightened = any(entry.flow is not None for entry in runtime.config.profiles.values())
    return FlowPolicy() if is_tightened else runtime.policy


def _server_options(runtime: Runtime, profile: str | None = None) -> JsonObject:
    section = runtime.config.server

    def filter_for(named: str | None) -> ToolFilter | None:
        return runtime.get_filter(named or profile)

    return {
        "name": section.name,
        "version": version("spindle"),
        "instructions": section.instructions,
        "is_fenced": section.fence,
        "is_structured": section.structured,
        "cache_seconds": section.cache_seconds,
        "cache_scope": section.cache_scope,
        "filter_of": filter_for,
        "working_dir": str(runtime.config.root),
        "offers": _load_extra_server(runtime.config),
        "upstream": runtime.servers,
        "spool": runtime.spool,
        "max_calls_per_session": section.max_calls_per_session,
        "max_running_per_session": section.max_running_per_session,
        "tasks": _build_task_settings(runtime),
    }


def _build_task_settings(runtime: Runtime) -> TaskSettings | None:
    section = runtime.config.server
    if not section.tasks:
        return None
    return TaskSettings(
        after_seconds=section.task_after_seconds,
        ttl_seconds=section.task_ttl_seconds,
        journal=runtime.journal,
        upstream=None if runtime.servers is None else runtime.servers.tasks,
    )


def _load_extra_server(config: Config) -> "Server[Any] | None":
    """Load the SDK server whose prompts and resources are served with the tools."""
    spot = config.server.offers
    if spot is None:
        return None
    value = load_object(config, spot, ("server", "offers"))
    if not isinstance(value, Server):
        kind = type(value).__name__
        raise config.error(("server", "offers"), f"expected a mcp.server.lowlevel.Server, but {spot} is a {kind}")
    return cast("Server[Any]", value)


def _observers(calls: CallMetrics | None = None) -> Sequence[Any]:
    counting = () if calls is None else (calls,)
    if find_spec("opentelemetry") is None:
        return (*counting, log_calls())
    return (telemetry.telemetry(), *counting, log_calls())


def _resolve(config: Config, path: str | None) -> str | None:
    """Return a path relative to the file of the configuration."""
    base = Path.cwd() if config.file is None else config.file.parent
    return None if path is None else str(base / Path(path).expanduser())


def build_resource_settings(config: Config) -> ResourceSettings | None:
    """Return the access tokens to accept, of `[server.oauth]`.

    Raises:
        InvalidConfigError: A value is invalid, or a scope names a profile that does not exist.
    """
    section = config.server.oauth
    if section is None:
        return None
    for profile in section.scopes.values():
        if profile not in config.profiles:
            raise config.error(
                ("server", "oauth", "scopes"), f"there is no profile {profile!r}; add [profiles.{profile}]"
            )
    given: JsonObject = {name: value for name, value in section.model_dump().items() if value is not None}
    try:
        return ResourceSettings(**given)
    except UsageError as error:
        raise config.error(("server", "oauth", error.field or ""), str(error)) from error


def hash_tokens(config: Config, environ: Mapping[str, str], *, host: str = "127.0.0.1") -> dict[str, str | None]:
    """Map the hash of each bearer token to its profile.

    Raises:
        InvalidConfigError: The variable of a token is not set, two profiles have the same token, or other machines can
            reach `host` and a token can be guessed.
    """
    tokens: dict[str, str | None] = {}
    for name, entry in config.profiles.items():
        if entry.token_env is None and entry.token_sha256 is None:
            continue
        if entry.token_env is not None and not environ.get(entry.token_env):
            raise config.error(
                ("profiles", name, "token_env"), f"the environment variable {entry.token_env} is not set"
            )
        bits = estimate_bits(environ[entry.token_env]) if entry.token_env is not None else MIN_TOKEN_BITS
        if bits < MIN_TOKEN_BITS and not is_loopback(host):
            raise config.error(
                ("profiles", name, "token_env"),
                f"the token in {entry.token_env} has about {bits:.0f} bits of entropy, and {host} can be reached from "
                f"other machines, which needs {MIN_TOKEN_BITS}; make one with: "
                """python3 -c 'import secrets; print(secrets.token_urlsafe(32))'""",
            )
        given = entry.token_sha256 or token_hash(environ[entry.token_env or ""])
        if given.lower() in tokens:
            raise config.error(
                ("profiles", name), f"has the same token as {tokens[given.lower()]!r}; use a different one"
            )
        tokens[given.lower()] = name
    return tokens


async def _watch_spool(runtime: Runtime, problems: list[str]) -> None:
    """Check the spool at intervals and keep its current problem in `problems`."""
    while True:
        problem = await check_spool(runtime.spool)
        problems[:] = [] if problem is None else [problem]
        await anyio.sleep(SPOOL_CHECK_SECONDS)


def _health(runtime: Runtime, spool_problems: Sequence[str], shared: SharedRecords | None = None) -> JsonObject:
    servers = [] if runtime.servers is None else runtime.servers.status()
    is_failing = any(each.required and each.state != "ready" and each.error is not None for each in servers)
    listed = [_status_to_json(each) for each in servers]
    # Calls are still answered without a spool, so it does not make the gateway fail.
    spool = {"status": "failing", "error": spool_problems[0]} if spool_problems else {"status": "ok"}
    status = "failing" if is_failing else "ok"
    known: JsonObject = {"status": status, "tools": len(runtime.registry), "servers": listed, "spool": spool}
    return known if shared is None else known | {"replicas": 1 + shared.replica.others}


def _status_to_json(status: ServerStatus) -> JsonObject:
    """Return a status without what is empty; of what a server can reach, only its sandbox."""
    facts = asdict(replace(status, reach=None)) | {"sandbox": None if status.reach is None else status.reach.sandbox}
    return {name: value for name, value in facts.items() if value not in (None, ())}


def _stop(server: ToolServer, page: "inspector.InspectorApp | None", seconds: float) -> None:
    if page is not None:
        page.close()
    print_stopping(server.load.running, seconds)
