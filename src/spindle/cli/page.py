"""The page of `spindle serve`: what it may use of the runtime, who may log in, and its one-time link."""

from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from spindle import execution, inspector
from spindle.cli.checks.machine import get_enforcement
from spindle.cli.config.loader import Config
from spindle.cli.gateway_metrics import measure_stores
from spindle.cli.prompts import get_user
from spindle.cli.runtime import Runtime
from spindle.cli.runtime_stores import read_state_key
from spindle.cli.sample_files import suggest_arguments
from spindle.execution.ticket_settings import TicketSettings
from spindle.execution.tickets import open_office
from spindle.extras import missing_extra
from spindle.inspector.app import PAGE
from spindle.inspector.logins import issue_code
from spindle.json_types import JsonObject
from spindle.mcp.server.http import HttpSettings, is_loopback
from spindle.mcp.server.http_callers import name_client
from spindle.mcp.server.tool_server import ToolServer
from spindle.tools.filters import ToolFilter


def is_page_served(config: Config, http: HttpSettings) -> bool:
    """Return whether the page is served: as configured, by default only where other machines cannot reach it.

    Raises:
        MissingExtraError: It is configured, and a package of the extra `server` is missing.
        InvalidConfigError: The MCP endpoint has a path of the page.
    """
    wanted = config.server.page
    if wanted is False or (wanted is None and not is_loopback(http.host)):
        return False
    if find_spec("jinja2") is None:
        if wanted is None:
            return False
        raise missing_extra("server", purpose="the page of spindle serve", package="jinja2")
    taken = [path for path in (http.path, http.sse_path) if path is not None and inspector.is_page_path(path)]
    if taken and wanted is None:
        return False
    if taken:
        raise config.error(("server", "page"), f"{taken[0]} is a path of the page; change it, or set page = false")
    return True


def build_page(
    runtime: Runtime,
    server: ToolServer,
    http: HttpSettings,
    profile: str | None,
    get_health: Callable[[], JsonObject] = dict,
) -> inspector.InspectorApp:
    """Build the page of a running server; a login without a profile sees the tools of `profile`."""
    config, key = runtime.config, read_state_key(runtime.config)
    settings = TicketSettings.build(runtime.journal, key, 1, None)
    ignored = tuple(config.lint.ignore)

    async def measure() -> JsonObject:
        return await measure_stores(runtime)

    @cache  # it is asked for each tool and each call
    def get_filter(named: str | None) -> ToolFilter | None:
        return runtime.get_filter(named or profile)

    bench = inspector.Workbench(
        registry=runtime.registry,
        executor=runtime.executor,
        journal=runtime.journal,
        spool=runtime.spool,
        events=runtime.events,
        servers=runtime.servers,
        tickets=None if settings is None else open_office(settings),
        policy=runtime.policy,
        get_filter=get_filter,
        count_running=lambda: server.load.running,
        count_sessions=lambda: server.sessions,
        get_health=get_health,
        measure_stores=measure,
        find_sandbox=lambda: _find_sandbox(config),
        retention={"max_bytes": config.retention.max_bytes, "max_age_days": config.retention.max_age_days},
        journal_file=config.journal if isinstance(config.journal, Path) else None,
        lint_ignore=ignored,
        profiles=tuple(config.profiles),
        examples=suggest_arguments(config),
        is_fenced=config.server.fence,
        is_structured=config.server.structured,
        name=config.server.name,
        version=version("spindle"),
    )
    logins = inspector.PageLogins(
        key=execution.StateKey(key),
        states=runtime.journal.states,
        roles={name: entry.page for name, entry in config.profiles.items() if entry.page is not None},
        clients=frozenset(map(name_client, http.tokens)),
        # A browser accepts a cookie of this name only from this host, and only over HTTPS.
        cookie=f"{'__Host-' if http.scheme == 'https' else ''}spindle_page_{http.port}",
        is_secure=http.scheme == "https",
    )
    return inspector.InspectorApp(bench, logins)


def _find_sandbox(config: Config) -> JsonObject:
    found = get_enforcement(config.reach.sandbox)
    return {**found, "mode": config.reach.sandbox, "commands": len(config.reach.commands)}


async def build_link(runtime: Runtime, address: str) -> str | None:
    """Return a one-time link to the page of a server at `address`; `None` if its journal has no place for it."""
    if runtime.journal.states is None:
        return None
    code = await issue_code(runtime.journal.states, role="operator", by=get_user())
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}{PAGE}/login#{code}"
