"""The state of each client of the server: its view of the tools, and the artifacts of its calls.

A client never sees another client's artifacts. Where the protocol has sessions, a client is identified by its session.
Otherwise it is identified by its token, and an artifact's id is a secret that only the call's result contains.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.forge import forge_all, forge_without_ids
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.markdown.artifact import MarkdownArtifact
from spindle.artifacts.table_artifact import TableArtifact
from spindle.bridges.definitions import Definitions
from spindle.calls import CallOutcome, Ok
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry

ALWAYS_SHOWN: Final = ("artifact_head", "artifact_tail", "artifact_grep", "artifact_cat")
"""Readers that every client sees from the start, since many clients list the tools only once."""
MAX_ARTIFACTS: Final = 200
MAX_UNLISTED_ARTIFACTS: Final = 2_000
"""Limit for a token, which several clients may share."""
MAX_SESSIONS: Final = 10_000
IDLE_SECONDS: Final = 3_600


@dataclass(frozen=True, slots=True)
class ReadableCall:
    """The part of a call that artifact readers need; kept small, since a client may have thousands."""

    id: str
    results: Any
    from_artifact_tool: bool = False


class SharedView:
    """The view shared by clients without listed artifacts: the server's tools, and readers that list no artifact ids.

    It is shared because a view takes milliseconds to build and 0.1 MB to keep. A reader finds the artifacts of the
    session whose call it runs in.
    """

    def __init__(self) -> None:
        self._view = ToolRegistry()
        self._version = -1
        kinds = (Artifact, JsonArtifact, MarkdownArtifact, TableArtifact)
        self._readers = {
            reader.name: reader for kind in kinds for reader in forge_without_ids(kind, _CurrentArtifacts())
        }

    def get(self, base: ToolRegistry, version: int) -> ToolRegistry:
        """Return the view, rebuilt if the server's tools have changed."""
        if self._version != version:
            self._view, self._version = base.copy(), version
            for name, reader in self._readers.items():
                if name not in base:
                    self._view.register(reader)
                    if name not in ALWAYS_SHOWN:
                        self._view.hide(name)
        return self._view


_current_session: ContextVar["McpSession | None"] = ContextVar("spindle_mcp_session", default=None)


class _CurrentArtifacts:
    """The artifacts of the client whose call runs now, for the shared readers."""

    @property
    def tool_calls(self) -> Iterable[ReadableCall]:
        session = _current_session.get()
        return () if session is None else session.tool_calls


@dataclass
class McpSession:
    """The state of one client."""

    key: str
    filter: ToolFilter | None
    lists_artifacts: bool
    """Whether its readers may list the ids of its artifacts."""
    tool_calls: deque[ReadableCall] = field(init=False)
    last_seen: float = 0.0
    notify: Callable[[], Any] | None = None
    """Notifies the client that its list of tools has changed."""
    log_level: str | None = None
    """The lowest level of log messages to send to the client; `None` until it sets one."""
    sent_definitions: Definitions | None = None
    """The definitions that were last sent to the client, used to parse its calls."""
    shared_view: SharedView = field(default_factory=SharedView, repr=False)
    _own_view: ToolRegistry | None = None
    _version: tuple[int, int] = (-1, -1)
    _kept: int = 0

    def __post_init__(self) -> None:
        self.tool_calls = deque(maxlen=MAX_ARTIFACTS if self.lists_artifacts else MAX_UNLISTED_ARTIFACTS)

    def get_registry(self, base: ToolRegistry, version: int) -> ToolRegistry:
        """Return the client's view: the server's tools, and readers of its own artifacts."""
        if not (self.lists_artifacts and self.tool_calls):
            return self.shared_view.get(base, version)
        wanted = (version, self._kept)
        if self._own_view is None or self._version != wanted:
            self._own_view, self._version = self._listing(base, version), wanted
        return self._own_view

    @contextmanager
    def activate(self) -> Generator[None]:
        """Make this the session whose artifacts the shared readers find."""
        token = _current_session.set(self)
        try:
            yield
        finally:
            _current_session.reset(token)

    def keep_artifact(self, outcome: CallOutcome) -> bool:
        """Keep the artifact of a call, if it has one; return whether the list of tools has changed."""
        result = outcome.result
        if not isinstance(result, Ok) or result.artifact is None or outcome.from_artifact_tool:
            return False
        self.tool_calls.append(ReadableCall(outcome.tool_call_id, result.artifact))
        self._kept += self.lists_artifacts
        return self.lists_artifacts

    def _listing(self, base: ToolRegistry, version: int) -> ToolRegistry:
        view = self.shared_view.get(base, version).copy()
        for reader in forge_all(self):
            if reader.name not in base:
                view.unregister(reader.name)
                view.register(reader)
        return view


class McpSessions:
    """The recently active clients; idle ones are dropped."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open_view = SharedView()
        self._sessions: OrderedDict[str, McpSession] = OrderedDict()

    def get(self, key: str, *, filter: ToolFilter | None, lists_artifacts: bool) -> McpSession:
        """Return the session of a client; create it if it does not exist."""
        now = self._clock()
        self._forget(before=now - IDLE_SECONDS)
        session = self._sessions.pop(key, None)
        if session is None:
            session = McpSession(key, filter, lists_artifacts, shared_view=self._open_view)
        session.last_seen = now
        self._sessions[key] = session
        return session

    def all(self) -> list[McpSession]:
        """Return all sessions."""
        return list(self._sessions.values())

    def forget(self, key: str) -> None:
        """Drop the session of a client that has disconnected."""
        self._sessions.pop(key, None)

    def _forget(self, before: float) -> None:
        while self._sessions:
            oldest = next(iter(self._sessions.values()))
            if oldest.last_seen >= before and len(self._sessions) < MAX_SESSIONS:
                return
            del self._sessions[oldest.key]
