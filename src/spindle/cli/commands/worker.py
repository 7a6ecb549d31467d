"""`spindle worker`: run calls that a durable engine hands out, with the tools of the configuration."""

import signal
import sys
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from typing import Annotated

import anyio
from cyclopts import Parameter

from spindle import engines, execution, turns
from spindle.addresses import hide_credentials
from spindle.cli.commands.serve import LogLevel, log_to_stderr
from spindle.cli.config.loader import Config
from spindle.cli.main import OK, USAGE
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, EngineUrl, choose_engine
from spindle.cli.output import Output
from spindle.cli.runtime_engine import build_engine_settings, open_turn_runners
from spindle.cli.runtime_registry import start_servers
from spindle.cli.runtime_servers import build_backends
from spindle.cli.runtime_stores import build_spool, build_storage, read_state_key
from spindle.cli.runtime_tools import build_local_registry
from spindle.cli.worker_status import serve_status
from spindle.errors import CommandError
from spindle.events import Events


def worker(
    *,
    engine: EngineUrl = None,
    queue: Annotated[
        tuple[str, ...], Parameter(negative="", help="Take calls of this task queue only; repeatable.")
    ] = (),
    concurrency: Annotated[int | None, Parameter(help="Run at most this many calls of a task queue at once.")] = None,
    health_port: Annotated[
        int | None, Parameter(help="Serve /health and /metrics on this port; 0 selects a free one.")
    ] = None,
    log_level: Annotated[LogLevel, Parameter(help="Minimum level to log on standard error.")] = "warning",
    log_json: Annotated[bool, Parameter(negative="", help="Log one JSON object per line.")] = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Run calls of the configured engine until SIGTERM or Ctrl-C; running calls may finish."""
    config = choose_engine(where.load_for_tools(), engine)
    changes = {"concurrency": concurrency, "health_port": health_port}
    given = {name: value for name, value in changes.items() if value is not None}
    config = replace(config, engine=config.engine.model_copy(update=given))
    settings = build_engine_settings(config)
    if settings is None:
        hint = 'set `url` under [engine], such as "temporal://127.0.0.1:7233", or use --engine'
        raise CommandError("no engine is configured", exit_code=USAGE, hint=hint)
    log_to_stderr(log_level, as_json=log_json)
    anyio.run(_run, config, settings, queue)  # on asyncio, which the clients of the engines need
    return OK


async def _run(config: Config, settings: "engines.EngineSettings", queues: tuple[str, ...]) -> None:
    if not settings.queues and not config.engine.turns:
        hint = "set `queue` or `task_queues` under [engine]"
        raise CommandError("no task queue is configured", exit_code=USAGE, hint=hint)
    unknown = [name for name in queues if name not in settings.queues]
    if unknown:
        known = ", ".join(settings.queues)
        raise CommandError(f"unknown task queue {unknown[0]!r}", exit_code=USAGE, hint=f"configured queues: {known}")
    async with AsyncExitStack() as stack:
        runner, runners = await _build_runners(config, stack)
        running = engines.open_worker(
            settings, runner, queues=queues, turns=runners, drain_seconds=config.engine.drain_seconds
        )
        stop = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_wait_for_signal, stop)
            place: int | None = None
            if config.engine.health_port is not None:
                host, port = config.engine.health_host, config.engine.health_port
                place = await tasks.start(serve_status, runner.stats, host, port)
                _print(f"Status: http://{host}:{place}/health")
            _print(f"Connecting to {hide_credentials(settings.url)}")
            async with anyio.create_task_group() as working:
                await working.start(running.run, stop)
                taken = [*(queues or settings.queues), *map(settings.get_turn_queue, runners)]
                _print(f"Taking calls of {', '.join(taken)}; Ctrl-C stops after running calls")
            tasks.cancel_scope.cancel()


async def _build_runners(
    config: Config, stack: AsyncExitStack
) -> "tuple[engines.CallRunner, dict[str, turns.TurnRunner]]":
    """Open what the tools need, as for the gateway; only turns need a journal, the engine keeps those of calls."""
    backends = replace(build_backends(config), storage=build_storage(config))
    registry = build_local_registry(config, backends)
    events = Events()
    await start_servers(config, registry, events, stack, wait=True)
    if isinstance(backends.network, AbstractAsyncContextManager):
        await stack.enter_async_context(backends.network)
    calls = engines.CallRunner(
        registry,
        backends=backends,
        spool=build_spool(config),
        state_key=execution.StateKey(read_state_key(config)),
        events=events,
        concurrency=config.engine.concurrency,
    )
    return calls, await open_turn_runners(config, registry, backends, stack)


async def _wait_for_signal(stop: anyio.Event) -> None:
    """Set `stop` at the first signal; at the second one, exit at once."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            if stop.is_set():
                raise KeyboardInterrupt
            _print(f"Stopping after {signal.Signals(number).name}: running calls may finish")
            stop.set()


def _print(text: str) -> None:
    Output(sys.stderr).line(text)
    sys.stderr.flush()
