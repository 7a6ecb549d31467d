"""What each client of the server has of its own: its view of the tools, and the artifacts of its calls.

A client never sees another's artifacts. Where the protocol has sessions, a client is its session. Where it has none, it
is its token, and an artifact's id is a secret that only the result told: nothing lists it.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.forge import forge_all, forge_open
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.markdown.artifact import MarkdownArtifact
from spindle.artifacts.table_artifact import TableArtifact
from spindle.bridges.definitions import Definitions
from spindle.calls import CallOutcome, Ok
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry

ALWAYS_SHOWN: Final = ("artifact_head", "artifact_tail", "artifact_grep", "artifact_cat")
"""Readers that every client sees from the start; many look at their list of tools only once."""
MAX_ARTIFACTS: Final = 200
MAX_UNLISTED_ARTIFACTS: Final = 2_000
"""Of a client that is only known by its token, and may be many."""
MAX_SESSIONS: Final = 10_000
IDLE_SECONDS: Final = 3_600


@dataclass(frozen=True, slots=True)
class KeptCall:
    """A call whose result can be read: no more of it than that takes, for a client may have thousands."""

    id: str
    results: Any
    from_artifact_tool: bool = False


class OpenView:
    """What clients see who have nothing listed of their own: the tools of the house, and readers that name no artifact.

    They share it, for each of its own would take milliseconds and a tenth of a megabyte. Whose artifacts such a reader
    finds is decided by whose call it runs in.
    """

    def __init__(self) -> None:
        self._view = ToolRegistry()
        self._version = -1
        kinds = (Artifact, JsonArtifact, MarkdownArtifact, TableArtifact)
        self._readers = {reader.name: reader for kind in kinds for reader in forge_open(kind, _Current())}

    def of(self, base: ToolRegistry, version: int) -> ToolRegistry:
        """Give the view of the house as it is now."""
        if self._version != version:
            self._view, self._version = base.copy(), version
            for name, reader in self._readers.items():
                if name not in base:
                    self._view.register(reader)
                    if name not in ALWAYS_SHOWN:
                        self._view.hide(name)
        return self._view


_calling: ContextVar["Session | None"] = ContextVar("spindle_mcp_session", default=None)


class _Current:
    """The client whose call runs now, as its readers see it."""

    @property
    def tool_calls(self) -> Iterable[KeptCall]:
        session = _calling.get()
        return () if session is None else session.tool_calls


@dataclass
class Session:
    """One client."""

    key: str
    filter: ToolFilter | None
    lists_artifacts: bool
    """Whether its readers may name the artifacts there are."""
    tool_calls: deque[KeptCall] = field(init=False)
    last_seen: float = 0.0
    notify: Callable[[], Any] | None = None
    """Tells the client that its list of tools has changed."""
    log_level: str | None = None
    """From which level on the client wants to see what its calls log; `None` while it has not said so."""
    known: Definitions | None = None
    """What the client was told last, by which its calls are read."""
    open_view: OpenView = field(default_factory=OpenView, repr=False)
    _own_view: ToolRegistry | None = None
    _version: tuple[int, int] = (-1, -1)
    _kept: int = 0

    def __post_init__(self) -> None:
        self.tool_calls = deque(maxlen=MAX_ARTIFACTS if self.lists_artifacts else MAX_UNLISTED_ARTIFACTS)

    def registry(self, base: ToolRegistry, version: int) -> ToolRegistry:
        """Give the client's view: the tools of the house, and readers of its own artifacts."""
        if not (self.lists_artifacts and self.tool_calls):
            return self.open_view.of(base, version)
        wanted = (version, self._kept)
        if self._own_view is None or self._version != wanted:
            self._own_view, self._version = self._listing(base, version), wanted
        return self._own_view

    @contextmanager
    def calling(self) -> Generator[None]:
        """Be the client whose artifacts the readers find that all clients share."""
        token = _calling.set(self)
        try:
            yield
        finally:
            _calling.reset(token)

    def keep(self, outcome: CallOutcome) -> bool:
        """Keep the artifact of a call, if it has one; says whether the list of tools is another one now."""
        result = outcome.result
        if not isinstance(result, Ok) or result.artifact is None or outcome.from_artifact_tool:
            return False
        self.tool_calls.append(KeptCall(outcome.tool_call_id, result.artifact))
        self._kept += self.lists_artifacts
        return self.lists_artifacts

    def _listing(self, base: ToolRegistry, version: int) -> ToolRegistry:
        view = self.open_view.of(base, version).copy()
        for reader in forge_all(self):
            if reader.name not in base:
                view.unregister(reader.name)
                view.register(reader)
        return view


class Sessions:
    """The clients that were seen lately; who stays away is forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open_view = OpenView()
        self._known: OrderedDict[str, Session] = OrderedDict()

    def get(self, key: str, *, filter: ToolFilter | None, lists_artifacts: bool) -> Session:
        """Give the session of a client, a new one where it is not known."""
        now = self._clock()
        self._forget(before=now - IDLE_SECONDS)
        session = self._known.pop(key, None)
        if session is None:
            session = Session(key, filter, lists_artifacts, open_view=self._open_view)
        session.last_seen = now
        self._known[key] = session
        return session

    def all(self) -> list[Session]:
        """Give every session."""
        return list(self._known.values())

    def forget(self, key: str) -> None:
        """Let go of a client that has left."""
        self._known.pop(key, None)

    def _forget(self, before: float) -> None:
        while self._known:
            oldest = next(iter(self._known.values()))
            if oldest.last_seen >= before and len(self._known) < MAX_SESSIONS:
                return
            del self._known[oldest.key]
