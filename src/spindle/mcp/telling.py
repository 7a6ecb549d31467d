"""What a call tells its client on the way: how far it is, and the lines of its log that the client wants.

Lines are told at once and sent beside the work: a client that does not listen holds up nobody, and a tool that talks
without end is cut short.
"""

import json
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, get_args

import anyio
from mcp.server.context import ServerRequestContext
from mcp_types import (
    LOG_LEVEL_META_KEY,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from spindle.bridges.reading import sendable
from spindle.events import Events, Logged, ToolProgress
from spindle.mcp.sessions import Session

LEVELS: Final[tuple[LoggingLevel, ...]] = get_args(LoggingLevel)
"""From the least to the most severe."""
MAX_LINES: Final = 1_000
"""Of the log, that one call may send."""
MAX_LINE_CHARS: Final = 4_000
MAX_WAITING: Final = 2 * MAX_LINES
"""Lines that are not sent yet; beyond that the oldest are given up."""
LAST_WORDS_SECONDS: Final = 2.0
"""For what is still waiting when the call has ended."""
_OTHER_NAMES: Final[dict[str, LoggingLevel]] = {"trace": "debug", "warn": "warning"}

Context: TypeAlias = ServerRequestContext[Any, Any]
"""A request of a client."""


class Telling:
    """The lines of one call on their way to its client."""

    def __init__(self, events: Events) -> None:
        self._waiting: deque[ToolProgress | LoggingMessageNotificationParams] = deque(maxlen=MAX_WAITING)
        self._news = anyio.Event()
        self._is_over = False
        self._wanted: tuple[LoggingLevel, ...] = ()
        self._has_token = False
        self._lines = 0
        self._last = 0.0
        events.on("tool_progress", self._heard_progress)
        events.on("log", self._heard_line)

    @asynccontextmanager
    async def to(self, request: Context, session: Session) -> AsyncGenerator[None]:
        """Send to a request, while it waits for the call, what the call tells; all of that is out in the end."""
        self._wanted = _wanted_levels(request, session)
        self._has_token = bool(request.meta) and request.meta.get("progress_token") is not None
        if not self._wanted and not self._has_token:
            yield
            return
        self._is_over = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send_all, request)
            yield
            self._is_over = True
            self._news.set()
            tasks.cancel_scope.deadline = anyio.current_time() + LAST_WORDS_SECONDS

    def _heard_progress(self, told: ToolProgress) -> None:
        if self._has_token:
            self._put(told)

    def _heard_line(self, line: Logged) -> None:
        level = _OTHER_NAMES.get(line.level, "info") if line.level not in LEVELS else line.level
        if level not in self._wanted or self._lines > MAX_LINES:
            return
        self._lines += 1
        is_last = self._lines > MAX_LINES
        data = f"This call has logged {MAX_LINES} lines; no more of them are sent." if is_last else _data_of(line)
        self._put(LoggingMessageNotificationParams(level=level, logger=line.tool_name, data=sendable(data)))

    def _put(self, told: ToolProgress | LoggingMessageNotificationParams) -> None:
        self._waiting.append(told)
        self._news.set()

    async def _send_all(self, request: Context) -> None:
        while True:
            while self._waiting:
                told = self._waiting.popleft()
                try:
                    await self._send(request, told)
                except Exception:  # noqa: BLE001  a client that cannot be told is not the tool's concern
                    self._waiting.clear()
                    return
            if self._is_over:
                return
            self._news = anyio.Event()
            await self._news.wait()

    async def _send(self, request: Context, told: ToolProgress | LoggingMessageNotificationParams) -> None:
        if isinstance(told, LoggingMessageNotificationParams):
            await request.session.send_notification(LoggingMessageNotification(params=told), request.request_id)
            return
        # The specification wants each value above the one before; a tool need not care.
        self._last = max(self._last + 0.001, told.percent if told.percent is not None else 0.0)
        total = 100 if told.percent is not None else None
        await request.session.report_progress(self._last, total, sendable(told.message))


def _wanted_levels(request: Context, session: Session) -> tuple[LoggingLevel, ...]:
    """Say which lines may be sent: none, until the client says from which level on it wants them."""
    wanted: Any = session.log_level
    if request.protocol_version in MODERN_PROTOCOL_VERSIONS:
        wanted = (request.meta or {}).get(LOG_LEVEL_META_KEY)
    return LEVELS[LEVELS.index(wanted) :] if wanted in LEVELS else ()


def _data_of(line: Logged) -> Any:
    message = _cut(line.message)
    if not line.payload:
        return message
    written = json.dumps(line.payload, ensure_ascii=False, default=str)
    facts = line.payload if len(written) <= MAX_LINE_CHARS else {"payload": _cut(written)}
    return {"message": message, **facts}


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]}…"
