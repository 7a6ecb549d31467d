"""How a connection is opened: the link its spec asks for, and what its server says unasked."""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from spindle.events import Logged
from spindle.extras import needs_extra
from spindle.mcp.client_gate import Action, Content, RunningCalls
from spindle.mcp.client_life import House
from spindle.mcp.client_words import reason_of
from spindle.mcp.spec import ServerSpec
from spindle.mcp.upstream_env import Scratch, environment
from spindle.tools.problems import printable

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams

    from spindle.mcp.upstream_link import Link
    from spindle.mcp.upstream_session import UpstreamSession

_MAX_LOG_TEXT = 4_000


class Opener:
    """Opens connections to one server."""

    def __init__(
        self,
        spec: ServerSpec,
        house: House,
        calls: RunningCalls,
        *,
        tools_changed: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        self._spec = spec
        self._house = house
        self._calls = calls
        self._tools_changed = tools_changed
        self._warn = warn
        self._scratch = Scratch()
        self._has_strayed = False

    async def load(self) -> None:
        """Load what speaks the protocol; it takes half a second, so it is done in a thread, and once.

        Raises:
            MissingExtraError: It is not installed.
        """
        await anyio.to_thread.run_sync(load_sdk)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator["UpstreamSession", None]:
        """Connect; gives a session that has not agreed on a revision yet."""
        from spindle.mcp.upstream_session import Hooks, opened  # noqa: PLC0415  an extra, loaded above

        self._has_strayed = False
        hooks = Hooks(
            tools_changed=self._tools_changed,
            logged=self._logged,
            strayed=self._strayed,
            left_out=lambda problem: self._warn(f"is listed in part: {problem}"),
            asked=self._asked,
        )
        async with opened(await self._link(), hooks, seconds=self._spec.start_timeout_seconds) as session:
            yield session

    async def close(self) -> None:
        """Remove what the server had of its own."""
        await anyio.to_thread.run_sync(self._scratch.remove)

    async def _link(self) -> "Link":
        from spindle.mcp.upstream_http import HttpLink  # noqa: PLC0415  an extra
        from spindle.mcp.upstream_stdio import StdioLink  # noqa: PLC0415

        if self._spec.command is None:
            return HttpLink(self._spec, self._house.resolve)
        secrets = {name: await self._house.resolve(secret) for name, secret in self._spec.env_secrets.items()}
        scratch = await anyio.to_thread.run_sync(self._scratch.variables)
        return StdioLink(self._spec, environment(self._spec, os.environ, scratch, secrets))

    def _logged(self, level: str, logger: str | None, data: Any) -> None:
        text = data if isinstance(data, str) else repr(data)
        line = Logged(
            level=level,
            message=self._house.redact(printable(text, _MAX_LOG_TEXT)),
            turn_id="",
            dispatch_id="",
            iteration=0,
            emitted_at=datetime.now(UTC),
            payload={"server": self._spec.name, "logger": logger},
        )
        self._house.events.notify("log", line)

    def _strayed(self, error: Exception) -> None:
        if not self._has_strayed:  # one that chatters on stdout would have it said with every line
            self._has_strayed = True
            self._warn(f"sent something that is no message; it and its like are passed over: {reason_of(error)}")

    async def _asked(self, params: "ElicitRequestParams") -> tuple[Action, Content | None]:
        call = self._calls.addressee()
        if call is None:
            return "decline", None
        return await call.ask(params, self._house.events)


def load_sdk() -> None:
    """Import the SDK, or say how to get it."""
    with needs_extra("mcp", purpose="the MCP client"):
        for name in ("upstream_session", "upstream_http", "upstream_stdio"):
            import_module(f"spindle.mcp.{name}")
