"""Opens sessions with a server over stdio or HTTP; needs the MCP SDK, which `load_session_factory` imports."""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

import anyio.to_thread
from mcp_types import ElicitRequestParams

from spindle.events import Logged
from spindle.mcp.client.http import HttpLink
from spindle.mcp.client.lifecycle import ClientServices, describe_failure
from spindle.mcp.client.link import TransportLink
from spindle.mcp.client.running_calls import Action, Content, RunningCalls
from spindle.mcp.client.session import SessionCallbacks, UpstreamSession, open_session
from spindle.mcp.client.stdio import ScratchDirectory, StdioLink, build_environment
from spindle.mcp.spec import ServerSpec
from spindle.text import to_printable

_MAX_LOG_TEXT = 4_000


class SessionFactory:
    """Opens connections to one server."""

    def __init__(
        self,
        spec: ServerSpec,
        services: ClientServices,
        calls: RunningCalls,
        *,
        tools_changed: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        self._spec = spec
        self._services = services
        self._calls = calls
        self._tools_changed = tools_changed
        self._warn = warn
        self._scratch = ScratchDirectory()
        self._has_warned = False

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[UpstreamSession, None]:
        """Connect and yield a session that has not negotiated a protocol version yet."""
        self._has_warned = False
        hooks = SessionCallbacks(
            on_tools_changed=self._tools_changed,
            on_log=self._forward_log,
            on_invalid_message=self._warn_invalid_message,
            on_invalid_tool=lambda problem: self._warn(f"is only partly listed: {problem}"),
            on_elicitation=self._answer_elicitation,
        )
        async with open_session(await self._link(), hooks, seconds=self._spec.start_timeout_seconds) as session:
            yield session

    async def close(self) -> None:
        """Remove the server's temporary directory."""
        await anyio.to_thread.run_sync(self._scratch.remove)

    async def _link(self) -> TransportLink:
        resolve = partial(self._services.resolve, self._spec.name)
        if self._spec.command is None:
            return HttpLink(self._spec, resolve, self._services.tokens)
        secrets = {name: await resolve(secret) for name, secret in self._spec.env_secrets.items()}
        scratch = await anyio.to_thread.run_sync(self._scratch.create)
        return StdioLink(self._spec, build_environment(self._spec, os.environ, scratch, secrets))

    def _forward_log(self, level: str, logger: str | None, data: object) -> None:
        redact = self._services.redactor.redact
        text = data if isinstance(data, str) else repr(data)
        line = Logged(
            level=level,
            message=redact(to_printable(redact(text), _MAX_LOG_TEXT)),
            turn_id="",
            dispatch_id="",
            iteration=0,
            emitted_at=datetime.now(UTC),
            payload={"server": self._spec.name, "logger": None if logger is None else redact(logger)},
        )
        self._services.events.notify("log", line)

    def _warn_invalid_message(self, error: Exception) -> None:
        if not self._has_warned:  # a server that prints to stdout would cause a warning for every line
            self._has_warned = True
            self._warn(
                f"sent something that is not a protocol message; such input is ignored: {describe_failure(error)}"
            )

    async def _answer_elicitation(self, params: ElicitRequestParams) -> tuple[Action, Content | None]:
        call = self._calls.find_for_question()
        if call is None:
            return "decline", None
        return await call.ask(self._services.redactor.redact_value(params), self._services.events)
