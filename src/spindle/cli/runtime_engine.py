"""The engine of a configuration: its settings, its transport for the executor, and the runners of its turns."""

from contextlib import AsyncExitStack
from typing import Any

from spindle import engines, execution, turns
from spindle.addresses import add_password
from spindle.artifacts.spool import Spool
from spindle.capabilities.resolve import Backends
from spindle.cli.config.loader import Config
from spindle.cli.runtime_servers import build_secret_lookup
from spindle.cli.runtime_stores import build_journal, build_spool, read_state_key
from spindle.cli.runtime_tools import load_object
from spindle.errors import UsageError
from spindle.tools.registry import ToolRegistry


def build_engine_settings(config: Config) -> "engines.EngineSettings | None":
    """Return the settings of the engine, or `None` if calls run in this process.

    Raises:
        InvalidConfigError: The URL is invalid, a secret is not set, or the spool cannot be shared.
    """
    section = config.engine
    if section.url is None:
        return None
    if config.spool is None:
        raise config.error(("spool", "path"), "an engine needs a spool that callers and workers share, not memory")
    look_up = build_secret_lookup(config)
    found: dict[str, str] = {}
    for option, name in get_engine_secrets(config).items():
        value = look_up(name)
        if not value:
            key = ("engine", "options", option)
            raise config.error(key, f"the secret {name!r} is not set: export {name}=…, or add it to reach.secrets_file")
        found[option] = value
    try:
        return engines.EngineSettings(
            url=add_password(section.url, found["password"]) if "password" in found else section.url,
            task_queues=section.task_queues,
            default_queue=section.queue or None,
            worker_timeout_seconds=section.worker_timeout_seconds,
            retention_seconds=section.retention_seconds,
            api_key=found.get("api_key"),
        )
    except UsageError as error:
        raise config.error(("engine", error.field or "url"), str(error)) from error


def get_engine_secrets(config: Config) -> dict[str, str]:
    """Return the name of the secret of each credential of the engine."""
    options = config.engine.options
    given = {"password": options.password, "api_key": options.api_key}
    return {option: name for option, name in given.items() if name is not None}


async def open_engine(config: Config, spool: Spool, stack: AsyncExitStack) -> "engines.EngineTransport | None":
    """Open the transport of the engine until the stack is closed; `None` if calls run in this process.

    Raises:
        InvalidConfigError: The settings of the engine are invalid.
        MissingExtraError: The package of the engine is not installed.
    """
    settings = build_engine_settings(config)
    if settings is None:
        return None
    key = execution.StateKey(read_state_key(config))
    return await stack.enter_async_context(engines.open_transport(settings, spool=spool, state_key=key))


async def open_turn_runners(
    config: Config, registry: ToolRegistry, backends: Backends, stack: AsyncExitStack
) -> "dict[str, turns.TurnRunner]":
    """Build the runners whose turns a worker runs, by name; each gets the tools, the stores and the state key.

    Raises:
        InvalidConfigError: One does not exist or cannot be built, or there is no journal that callers can share.
        JournalError: The journal cannot be opened.
    """
    key = ("engine", "turns")
    if not config.engine.turns:
        return {}
    if config.journal is None:
        raise config.error(("journal", "path"), "turns on an engine need a journal that callers and workers share")
    journal = await stack.enter_async_context(build_journal(config))
    parts: dict[str, object] = {
        "tools": registry,
        "backends": backends,
        "journal": journal,
        "spool": build_spool(config),
        "state_key": read_state_key(config),
    }
    runners: dict[str, turns.TurnRunner] = {}
    for name, spot in config.engine.turns.items():
        build: Any = load_object(config, spot, key)
        try:
            runner = build(**parts)
        except Exception as error:
            text = f"{spot}(…) failed with {type(error).__name__}: {error!s:.200}"
            raise config.error(key, text) from error
        if not isinstance(runner, turns.TurnRunner):
            raise config.error(key, f"{spot} returned a {type(runner).__name__}; expected a TurnRunner")
        runners[name] = runner
    return runners


async def check_engine(config: Config) -> str | None:
    """Connect to the engine; return the problem, or `None`."""
    async with AsyncExitStack() as stack:
        transport = await open_engine(config, build_spool(config), stack)
        return None if transport is None else await transport.find_problem()
