"""The task that owns one server: starts it on demand, checks its health, restarts it, and stops it.

Read `run`, then `_live_once`: the life of one connection, top to bottom.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from spindle.errors import UpstreamError
from spindle.extras import needs_extra
from spindle.mcp.client.health import HealthChecks
from spindle.mcp.client.lifecycle import (
    FAILED_AFTER,
    ActiveConnection,
    Attempt,
    Backoff,
    ClientServices,
    ServerState,
    ServerStatus,
    describe_failure,
)
from spindle.mcp.client.running_calls import RunningCalls
from spindle.mcp.client.tools import PreparedListing
from spindle.mcp.spec import ServerSpec

if TYPE_CHECKING:
    from mcp.client.subscriptions import ServerEvent
    from mcp_types import Tool as ForeignTool

    from spindle.mcp.client.session import UpstreamSession
    from spindle.mcp.client.session_factory import SessionFactory

STABLE_SECONDS = 30.0
"""A server that ran this long, or served a call, starts with a fresh backoff when it is lost."""
_CLOSE_SECONDS = 6.0
_RESTARTED = "it was restarted"
_RELISTEN_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0)


LISTING_SECONDS = 1.0
"""Least time between two listings of a server's tools, whatever it reports; a listing that takes long waits longer."""
_PAUSES = 10
"""The pause after a listing, in times of what it took."""
_MAX_LISTING_SECONDS = 60.0


class ListingHandler(Protocol):
    """Takes the listings of a server's tools, in two steps: the first may run in a thread; lists everything else."""

    def prepare_listing(self, listed: "Sequence[ForeignTool]") -> PreparedListing:
        """Convert what is new or changed."""
        ...

    def apply_listing(self, prepared: PreparedListing) -> None:
        """Register the changes."""
        ...

    async def watch_features(self, live: ActiveConnection) -> None:
        """List prompts and resources, now and after changes, while the server is connected."""
        ...

    def notice_change(self, event: "ServerEvent") -> None:
        """Note that prompts or resources have changed."""
        ...


def load_session_factory() -> "type[SessionFactory]":
    """Import the MCP SDK, which takes half a second the first time.

    Raises:
        MissingExtraError: The SDK is not installed.
    """
    with needs_extra("mcp", purpose="the MCP client"):
        from spindle.mcp.client.session_factory import SessionFactory  # noqa: PLC0415 - an extra
    return SessionFactory


class UpstreamConnection:
    """A server and the task that owns it; `listings` gets each listing of its tools."""

    def __init__(self, spec: ServerSpec, services: ClientServices, listings: ListingHandler) -> None:
        self.spec = spec
        self.calls = RunningCalls()
        self.services = services
        self._listings = listings
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
        self._is_connecting = False
        self._start_scope: anyio.CancelScope | None = None
        self._probe = True
        self._session_factory: SessionFactory | None = None
        self.health = HealthChecks(spec, services.clock, self.calls, self.mark_lost)

    # --- for callers

    def status(self, *, tools: int) -> ServerStatus:
        """Return the current status, with the number of registered tools."""
        return ServerStatus(
            name=self.spec.name,
            state=self._state,
            required=self.spec.required,
            tools=tools,
            error=self._error,
            restarts=self._restarts,
            protocol_version=self._version,
            reach=None if self._session_factory is None else self._session_factory.reach,
        )

    def is_open(self) -> bool:
        """Return whether a call may be tried: one for a server that is down starts it."""
        return not self._is_closing

    def request_start(self, *, is_fresh: bool = False) -> Attempt:
        """Request a start unless it runs, without waiting for the backoff, and return the attempt.

        With `is_fresh`, the failures so far are forgotten, so that the next one is reported again.
        """
        if self._is_closing:
            self._attempt.finish(reason="it is stopped")
            return self._attempt
        if self._active is not None:
            current = Attempt()
            current.finish(self._active)
            return current
        if not self._is_connecting:
            self._retry_now.set()
            if is_fresh:
                self._backoff.reset()
        self._start_requested.set()
        return self._attempt

    async def get_active(self) -> ActiveConnection | None:
        """Return the connection, or the result of one attempt to connect now."""
        if self._active is not None:
            return self._active
        attempt = self.request_start()
        await attempt.done.wait()
        return attempt.connection

    def get_idle(self) -> ActiveConnection | None:
        """Return the connection if there is one and no call runs on it."""
        return None if len(self.calls) else self._active

    def describe_absence(self) -> str:
        """Return why the server cannot be called."""
        return f"MCP server {self.spec.name!r} is not connected" + (f": {self._error}" if self._error else ".")

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
        attempt = self.request_start(is_fresh=True)
        await attempt.done.wait()
        if attempt.connection is None:
            raise UpstreamError(
                f"MCP server {self.spec.name!r} does not start: {attempt.reason}", server=self.spec.name
            )

    def close(self) -> None:
        """Request the owning task to stop the server and to end."""
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
            if self._session_factory is not None:
                with anyio.CancelScope(shield=True):
                    await self._session_factory.close()

    async def _wait_before_retry(self, *, has_worked: bool) -> None:
        """Wait before the next attempt, until the backoff ends or a start is requested."""
        if has_worked:
            self._backoff.reset()
            return
        if self._retry_now.is_set():
            return
        seconds = self._backoff.record_failure()
        if self._backoff.failures == FAILED_AFTER + 1:
            self.warn(f"failed {self._backoff.failures} times in a row and is still retried: {self._error}")
        self._set_state("failed" if self._backoff.failures > FAILED_AFTER else "starting")
        async with anyio.create_task_group() as group:
            group.start_soon(self._sleep, seconds)
            await self._retry_now.wait()
            group.cancel_scope.cancel()

    async def _sleep(self, seconds: float) -> None:
        await self.services.clock.sleep(seconds)
        self._retry_now.set()

    async def _run_connection(self) -> bool:
        """Connect, serve until the connection ends, and clean up; return whether it counts as having worked."""
        self._is_connecting = True
        if self._state != "failed":
            self._set_state("starting")
        sessions = await self._load_sessions()
        if self._is_closing:  # during the load there was no start to cancel
            return False
        live: ActiveConnection | None = None
        trouble: BaseException | None = None
        words: list[Callable[[], str]] = [str]
        seconds = self.spec.start_timeout_seconds
        with anyio.CancelScope(deadline=anyio.current_time() + seconds) as scope:
            self._start_scope = scope
            try:
                async with sessions.open(partial(self._negotiate, words)) as session:
                    listed = await self._read_listing(session)
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
            self._record_failure(
                f"it did not start within {seconds:g} s" if trouble is None else describe_failure(trouble), words[0]()
            )
            return False
        self._record_loss(live, words[0]())
        return live.has_served or self.services.clock.now() - live.connected_at >= STABLE_SECONDS

    async def _load_sessions(self) -> "SessionFactory":
        if self._session_factory is None:
            factory = await anyio.to_thread.run_sync(load_session_factory)
            self._session_factory = factory(
                self.spec,
                self.services,
                self.calls,
                tools_changed=self._mark_stale,
                feature_event=self._listings.notice_change,
                warn=self.warn,
            )
        return self._session_factory

    async def _negotiate(self, words: list[Callable[[], str]], session: "UpstreamSession") -> None:
        words[0] = session.link.describe_exit
        try:
            await session.negotiate(probe=self._probe)
        except Exception:
            # Some older servers exit on a first request that they do not know.
            self._probe = not session.link.broken.is_set()
            raise

    def _mark_connected(
        self, session: "UpstreamSession", group: TaskGroup, listed: PreparedListing, odd: list[str]
    ) -> ActiveConnection:
        live = ActiveConnection(session, group, connected_at=self.services.clock.now())
        for start in (
            self._watch_link,
            self._refresh_listing,
            self._watch_listing,
            self._listings.watch_features,
            self.health.run,
        ):
            group.start_soon(start, live)
        self._version, self._error = session.protocol_version, None
        self._active, self._is_connecting = live, False
        self._apply_listing(listed, odd)
        self._set_state("ready")
        self._attempt.finish(live)
        return live

    def _record_failure(self, reason: str, words: str) -> None:
        self._error = self._describe_error(reason, words)
        self._is_connecting = False
        if not self._backoff.failures:  # later failures are reported once, when there were many
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
        return self.services.redactor.redact(f"{reason}; {words}" if words else reason)

    def warn(self, text: str) -> None:
        """Emit a warning event about this server."""
        redacted = self.services.redactor.redact(text)
        self.services.events.warn(f"MCP server {self.spec.name!r} {redacted}", source="mcp")

    def _set_state(self, state: ServerState) -> None:
        self._state = state
        self.services.changed()

    # --- while connected

    async def _watch_link(self, live: ActiveConnection) -> None:
        await live.session.link.broken.wait()
        self.mark_lost(live, "its connection broke")

    async def _refresh_listing(self, live: ActiveConnection) -> None:
        """List the tools again after changes; changes during a pause are read together after it."""
        while True:
            await self._listing_changed.wait()
            self._listing_changed = anyio.Event()
            begun = self.services.clock.now()
            try:
                with anyio.fail_after(self.spec.start_timeout_seconds):
                    listed = await self._read_listing(live.session)
                self._apply_listing(*listed)
            except Exception as error:  # noqa: BLE001  the earlier listing stays in use
                self.warn(f"changed its tools, but listing them failed: {describe_failure(error)}")
            # Reading a thousand tools keeps the event loop busy: spend a small part of the time on it.
            taken = self.services.clock.now() - begun
            await self.services.clock.sleep(min(max(LISTING_SECONDS, _PAUSES * taken), _MAX_LISTING_SECONDS))

    async def _read_listing(self, session: "UpstreamSession") -> tuple[PreparedListing, list[str]]:
        listed, odd = await session.list_tools()
        # Thousands of definitions take long to compare and convert.
        return await anyio.to_thread.run_sync(self._listings.prepare_listing, listed, abandon_on_cancel=True), odd

    def _mark_stale(self) -> None:
        self._listing_changed.set()

    def _apply_listing(self, listed: PreparedListing, odd: list[str]) -> None:
        for problem in odd:
            self.warn(f"is only partly listed: {problem}")
        self._listings.apply_listing(listed)

    async def _watch_listing(self, live: ActiveConnection) -> None:
        for seconds in _RELISTEN_SECONDS:
            if not await live.session.watch_tools(self._mark_stale, self.services.clock.sleep):
                return
            await self.services.clock.sleep(seconds)
