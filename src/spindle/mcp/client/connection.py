"""The task that owns one server: starts it on demand, checks its health, restarts it, and stops it.

Read `run`, then `_live_once`: the life of one connection, top to bottom.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from spindle.errors import UpstreamError
from spindle.mcp.client.lifecycle import (
    ActiveConnection,
    Attempt,
    Backoff,
    ClientServices,
    RunningCalls,
    ServerState,
    ServerStatus,
    SessionFactory,
    describe_failure,
)
from spindle.mcp.client.tools import ServerTools
from spindle.mcp.spec import ServerSpec

if TYPE_CHECKING:
    from mcp_types import Tool as ForeignTool

    from spindle.mcp.client.session import UpstreamSession

HEALTH_SECONDS = 60.0
"""Interval between health checks."""
STABLE_SECONDS = 30.0
"""A server that ran this long, or served a call, starts with a fresh backoff when it is lost."""
_PING_SECONDS = 10.0
_CLOSE_SECONDS = 6.0
_RESTARTED = "it was restarted"
_RELISTEN_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0)


class UpstreamConnection:
    """A server and the task that owns it."""

    def __init__(self, spec: ServerSpec, tools: ServerTools, services: ClientServices) -> None:
        self.spec = spec
        self.tools = tools
        self.calls = RunningCalls()
        self.listing: Sequence[ForeignTool] = ()
        self.register_listing: Callable[[Sequence[ForeignTool]], None] = lambda _: None
        """Registers the tools of a listing; set by `McpServers`."""
        self.services = services
        self._state: ServerState = "idle" if spec.enabled else "stopped"
        self._error: str | None = None
        self._restarts = 0
        self._version: str | None = None
        self._active: ActiveConnection | None = None
        self._attempt = Attempt()
        self._backoff = Backoff()
        self._start_requested = anyio.Event()
        self._retry_now = anyio.Event()
        self._listing_changed = anyio.Event()
        self._is_closing = not spec.enabled
        self._is_backing_off = False
        self._start_scope: anyio.CancelScope | None = None
        self._probe = True
        self._session_factory = SessionFactory(
            spec, services, self.calls, tools_changed=self._mark_stale, warn=self.warn
        )

    # --- for callers

    def status(self) -> ServerStatus:
        """Return the current status."""
        return ServerStatus(
            name=self.spec.name,
            state=self._state,
            required=self.spec.required,
            tools=len(self.tools),
            error=self._error,
            restarts=self._restarts,
            protocol_version=self._version,
        )

    def is_open(self) -> bool:
        """Return whether a call may be tried: the server is connected, or was not started yet."""
        if self._state == "starting":
            return not self._backoff.failures
        return self._state in ("idle", "ready")

    def request_start(self, *, now: bool = False) -> Attempt:
        """Request a start unless it runs, and return the attempt; `now` skips the backoff."""
        if self._is_closing:
            self._attempt.finish(reason="it is stopped")
            return self._attempt
        if self._state == "failed" or (now and self._is_backing_off):
            self._backoff.reset()
            self._retry_now.set()
        self._start_requested.set()
        if self._active is not None:
            current = Attempt()
            current.finish(self._active)
            return current
        return self._attempt

    async def get_active(self, *, wait_for_retry: bool) -> ActiveConnection | None:
        """Return the connection, starting it if needed; with `patient`, also wait for one that is being retried."""
        if self._active is not None:
            return self._active
        if self._is_closing or (not wait_for_retry and self._state == "starting" and self._backoff.failures):
            return None
        attempt = self.request_start()
        await attempt.done.wait()
        return attempt.connection

    def register_again(self) -> None:
        """Register the last listing again: a name may have become free."""
        self.register_listing(self.listing)

    def mark_lost(self, live: ActiveConnection, reason: str) -> None:
        """Mark a connection as lost, so that it gets no more calls."""
        if live.over.is_set():
            return
        live.reason = reason
        if self._active is live:
            self._active, self._attempt = None, Attempt()
            self._state = "starting"
        live.over.set()

    async def restart(self) -> None:
        """Stop the server and start it again.

        Raises:
            UpstreamError: The server does not start.
        """
        if self._active is not None:
            self.mark_lost(self._active, _RESTARTED)
            self._retry_now.set()
        attempt = self.request_start(now=True)
        await attempt.done.wait()
        if attempt.connection is None:
            raise UpstreamError(
                f"MCP server {self.spec.name!r} does not start: {attempt.reason}", server=self.spec.name
            )

    def close(self) -> None:
        """Tell the owning task to stop the server and to end."""
        self._is_closing = True
        if self._active is not None:
            self.mark_lost(self._active, "it was closed")
        elif self._start_scope is not None:
            self._start_scope.cancel()
        for event in (self._start_requested, self._retry_now):
            event.set()

    # --- the owning task

    async def run(self) -> None:
        """Own the server until `close`."""
        try:
            while True:
                await self._start_requested.wait()
                if self._is_closing:
                    return
                self._retry_now = anyio.Event()
                is_settled = await self._run_connection()
                if not self._is_closing:
                    await self._wait_before_retry(has_worked=is_settled)
        finally:
            self._is_closing = True
            self._set_state("stopped")
            self._attempt.finish(reason="it is stopped")
            with anyio.CancelScope(shield=True):
                await self._session_factory.close()

    async def _wait_before_retry(self, *, has_worked: bool) -> None:
        """Wait before the next attempt, or for a request once all attempts have failed."""
        if self._retry_now.is_set() or has_worked:
            self._backoff.reset()
            return
        seconds = self._backoff.record_failure()
        if seconds is None:
            self._start_requested = anyio.Event()
            self.warn(f"failed too often and is not retried until it is requested: {self._error}")
            self._set_state("failed")
            return
        self._is_backing_off = True
        self._set_state("starting")
        async with anyio.create_task_group() as group:
            group.start_soon(self._sleep, seconds)
            await self._retry_now.wait()
            group.cancel_scope.cancel()
        self._is_backing_off = False

    async def _sleep(self, seconds: float) -> None:
        await self.services.clock.sleep(seconds)
        self._retry_now.set()

    async def _run_connection(self) -> bool:
        """Connect, serve until the connection ends, and clean up; return whether it counts as having worked."""
        self._set_state("starting")
        await self._session_factory.load()
        if self._is_closing:  # during the load there was no start to cancel
            return False
        live: ActiveConnection | None = None
        trouble: BaseException | None = None
        words: Callable[[], str] = str
        seconds = self.spec.start_timeout_seconds
        with anyio.CancelScope(deadline=anyio.current_time() + seconds) as scope:
            self._start_scope = scope
            try:
                async with self._session_factory.open() as session:
                    words = session.link.describe_exit
                    await self._negotiate(session)
                    listed = await session.list_tools()
                    scope.deadline = math.inf
                    async with anyio.create_task_group() as group:
                        live = self._mark_connected(session, group, *listed)
                        await live.over.wait()
                        session.link.broken.set()
                        group.cancel_scope.cancel()
                    scope.deadline = anyio.current_time() + _CLOSE_SECONDS
            except Exception as error:  # noqa: BLE001  any error of a server is a failure of that server only
                trouble = error
            finally:
                if live is not None:
                    self.mark_lost(live, "its task was cancelled" if trouble is None else describe_failure(trouble))
        if live is None and self._is_closing:
            return False
        if live is None:
            self._failed(
                f"it did not start within {seconds:g} s" if trouble is None else describe_failure(trouble), words()
            )
            return False
        self._record_loss(live, words())
        return live.has_served or self.services.clock.now() - live.connected_at >= STABLE_SECONDS

    async def _negotiate(self, session: "UpstreamSession") -> None:
        try:
            await session.negotiate(probe=self._probe)
        except Exception:
            # Some older servers exit on a first request that they do not know.
            self._probe = not session.link.broken.is_set()
            raise

    def _mark_connected(
        self, session: "UpstreamSession", group: TaskGroup, listed: "list[ForeignTool]", odd: list[str]
    ) -> ActiveConnection:
        live = ActiveConnection(session, group, connected_at=self.services.clock.now())
        for start in (
            self._watch_link,
            self._refresh_listing,
            self._watch_listing,
            self._tick,
            self._run_health_checks,
        ):
            group.start_soon(start, live)
        self._version, self._error = session.protocol_version, None
        self._active = live
        self._listing(listed, odd)
        self._set_state("ready")
        self._attempt.finish(live)
        return live

    def _failed(self, reason: str, words: str) -> None:
        self._error = self._describe_error(reason, words)
        if not self._backoff.failures:  # later attempts are reported once, when they are given up
            self.warn(f"is not connected: {self._error}")
        attempt, self._attempt = self._attempt, Attempt()
        attempt.finish(reason=self._error)

    def _record_loss(self, live: ActiveConnection, words: str) -> None:
        if self._is_closing:
            return
        self._restarts += 1
        if live.reason != _RESTARTED:
            self._error = self._describe_error(live.reason, words)
            self.warn(f"was lost: {self._error}")
        self._set_state("starting")

    def _describe_error(self, reason: str, words: str) -> str:
        return self.services.redact(f"{reason}; {words}" if words else reason)

    def warn(self, text: str) -> None:
        """Emit a warning event about this server."""
        self.services.events.warn(f"MCP server {self.spec.name!r} {self.services.redact(text)}", source="mcp")

    def _set_state(self, state: ServerState) -> None:
        self._state = state
        self.services.changed()

    # --- while connected

    async def _watch_link(self, live: ActiveConnection) -> None:
        await live.session.link.broken.wait()
        self.mark_lost(live, "its connection broke")

    async def _refresh_listing(self, live: ActiveConnection) -> None:
        while True:
            await self._listing_changed.wait()
            self._listing_changed = anyio.Event()
            try:
                with anyio.fail_after(self.spec.start_timeout_seconds):
                    self._listing(*await live.session.list_tools())
            except Exception as error:  # noqa: BLE001  the earlier listing stays in use
                self.warn(f"changed its tools, but listing them failed: {describe_failure(error)}")

    def _mark_stale(self) -> None:
        self._listing_changed.set()

    def _listing(self, listed: "list[ForeignTool]", odd: list[str]) -> None:
        for problem in odd:
            self.warn(f"is only partly listed: {problem}")
        self.listing = listed
        self.register_listing(listed)

    async def _watch_listing(self, live: ActiveConnection) -> None:
        for seconds in _RELISTEN_SECONDS:
            if not await live.session.watch_tools(self._mark_stale):
                return
            await self.services.clock.sleep(seconds)

    async def _tick(self, live: ActiveConnection) -> None:
        while True:
            await self.services.clock.sleep(HEALTH_SECONDS)
            live.health_check_due.set()

    async def _run_health_checks(self, live: ActiveConnection) -> None:
        while True:
            await live.health_check_due.wait()
            live.health_check_due = anyio.Event()
            # While calls run it is not idle; if it hangs, they time out and request this check again.
            if not len(self.calls) and not await self.is_responsive(live):
                self.mark_lost(live, "it does not answer")

    async def is_responsive(self, live: ActiveConnection) -> bool:
        """Return whether the server answers a ping within the time limit."""
        answered, heard = anyio.Event(), [False]

        async def ask() -> None:
            heard[0] = await live.session.ping()
            answered.set()

        if live.is_lost:
            return False
        live.group.start_soon(ask)
        with anyio.move_on_after(min(_PING_SECONDS, self.spec.start_timeout_seconds)):
            await answered.wait()
        return heard[0] and not live.is_lost
