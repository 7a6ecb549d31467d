"""Opens sessions with a server over stdio or HTTP; needs the MCP SDK, which `load_session_factory` imports."""

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial

import anyio.to_thread
from mcp.client.subscriptions import ServerEvent

from spindle.events import Logged
from spindle.mcp.client.confinement import ServerConfinement, ServerReach
from spindle.mcp.client.environment import build_environment
from spindle.mcp.client.home import ServerHome
from spindle.mcp.client.http import HttpLink
from spindle.mcp.client.lifecycle import ClientServices, describe_failure
from spindle.mcp.client.link import TransportLink
from spindle.mcp.client.running_calls import RunningCalls
from spindle.mcp.client.session import SessionCallbacks, UpstreamSession, open_session
from spindle.mcp.client.sse import SseLink
from spindle.mcp.client.stdio import StdioLink
from spindle.mcp.client.upstream_questions import Answered, Question
from spindle.mcp.spec import ServerSpec
from spindle.text import to_printable
from spindle.trust.sanitise import sanitise

_MAX_LOG_TEXT = 4_000

Negotiate = Callable[[UpstreamSession], Awaitable[None]]


class SessionFactory:
    """Opens connections to one server."""

    def __init__(
        self,
        spec: ServerSpec,
        services: ClientServices,
        calls: RunningCalls,
        *,
        tools_changed: Callable[[], None],
        feature_event: Callable[[ServerEvent], None],
        warn: Callable[[str], None],
    ) -> None:
        self._spec = spec
        self._services = services
        self._calls = calls
        self._tools_changed = tools_changed
        self._feature_event = feature_event
        self._warn = warn
        self._home = ServerHome(spec.home, server=spec.name)
        self._confinement: ServerConfinement | None = None
        self._reported_notes: tuple[str, ...] = ()
        self._has_warned = False
        self._is_older = False
        """Whether the server has turned out to have only the older HTTP transport."""

    @asynccontextmanager
    async def open(self, negotiate: Negotiate) -> AsyncGenerator[UpstreamSession, None]:
        """Connect, negotiate a protocol version, and yield the session.

        A server that does not understand the streamable HTTP transport is connected over the older one, if it has it.
        """
        self._has_warned = False
        async with AsyncExitStack() as stack:
            link = await self._link()
            try:
                session = await self._connect(stack, link, negotiate)
            except Exception as error:
                if not (isinstance(link, HttpLink) and self._may_be_older(link)):
                    raise
                await stack.aclose()
                older = SseLink(self._spec, partial(self._services.resolve, self._spec.name))
                try:
                    session = await self._connect(stack, older, negotiate)
                except Exception:  # noqa: BLE001  the first error says more about a server that has neither
                    raise error from None
                self._is_older = True
            yield session

    async def _connect(self, stack: AsyncExitStack, link: TransportLink, negotiate: Negotiate) -> UpstreamSession:
        hooks = SessionCallbacks(
            on_tools_changed=self._tools_changed,
            on_feature_event=self._feature_event,
            on_log=self._forward_log,
            on_invalid_message=self._warn_invalid_message,
            on_invalid_tool=lambda problem: self._warn(f"is only partly listed: {problem}"),
            on_questions=self._answer_questions,
            can_sample=self._spec.sampling,
            can_list_roots=self._spec.roots,
        )
        seconds, name = self._spec.start_timeout_seconds, self._services.client_name
        opened = open_session(link, hooks, seconds=seconds, client_name=name)
        session = await stack.enter_async_context(opened)
        self._warn_of_reach()
        await negotiate(session)
        return session

    def _may_be_older(self, link: HttpLink) -> bool:
        return self._spec.sse is None and not isinstance(link, SseLink) and link.refused_status is not None

    async def close(self) -> None:
        """Remove the server's temporary directory."""
        await anyio.to_thread.run_sync(self._home.remove)

    @property
    def reach(self) -> ServerReach | None:
        """What a server over stdio can reach, once it was started."""
        return None if self._confinement is None else self._confinement.reach

    def _warn_of_reach(self) -> None:
        """Emit a warning if the server is not confined as its spec says; a `sandbox` of "none" is its own choice."""
        reach = self.reach
        if reach is None or reach.sandbox == "off" or reach.notes == self._reported_notes:
            return
        self._reported_notes = reach.notes
        said = "; ".join(reach.notes)
        self._warn(f"runs without a sandbox: {said}" if not reach.is_confined else f"in its sandbox: {said}")

    async def _link(self) -> TransportLink:
        resolve = partial(self._services.resolve, self._spec.name)
        if self._spec.command is None:
            kind = SseLink if self._spec.sse or self._is_older else HttpLink
            return kind(self._spec, resolve, self._services.tokens)
        secrets = {name: await resolve(secret) for name, secret in self._spec.env_secrets.items()}
        folders = await anyio.to_thread.run_sync(self._home.create)
        self._confinement = ServerConfinement(self._spec, folders)
        environment = build_environment(self._spec, os.environ, folders.variables, secrets)
        return StdioLink(self._spec, environment, self._confinement)

    def _forward_log(self, level: str, logger: str | None, data: object) -> None:
        redact = self._services.redactor.redact
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=repr)
        shown = redact(to_printable(redact(text), _MAX_LOG_TEXT))
        line = Logged(
            level=level,
            message=shown,
            turn_id="",
            dispatch_id="",
            iteration=0,
            emitted_at=datetime.now(UTC),
            payload={
                "server": self._spec.name,
                "logger": None if logger is None else redact(to_printable(redact(logger), _MAX_LOG_TEXT)),
            },
        )
        self._services.events.notify("log", line)
        call = self._calls.find_for_question()
        if call is not None:  # the client behind it may have asked for log lines
            call.ctx.log(level, sanitise(shown))

    def _warn_invalid_message(self, error: Exception) -> None:
        if not self._has_warned:  # a server that prints to stdout would cause a warning for every line
            self._has_warned = True
            self._warn(
                f"sent something that is not a protocol message; such input is ignored: {describe_failure(error)}"
            )

    async def _answer_questions(self, questions: Sequence[Question]) -> list[Answered]:
        call = self._calls.find_for_question()
        if call is None:
            return [Answered(problem="no call is running that it belongs to")] * len(questions)
        return await call.ask(self._services.redactor.redact_value(list(questions)), self._services.events)
