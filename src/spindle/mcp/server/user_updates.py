"""`UpdateBus`: carries events to the streams of clients; an update over a user's connection only to his streams."""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated, ServerEvent
from typing_extensions import override

_sources: ContextVar[frozenset[int] | None] = ContextVar("spindle_update_sources", default=None)


@dataclass(frozen=True)
class UserUpdate(ResourceUpdated):
    """A resource that a server with OAuth has changed for one user."""

    source: int
    """The identity of the user's connection."""


class UpdateBus(InMemorySubscriptionBus):
    """A bus whose streams hear of a `UserUpdate` only if they were opened for its source."""

    @override
    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Register the listener of a stream."""
        sources = _sources.get() or frozenset[int]()

        def deliver(event: ServerEvent) -> None:
            if not isinstance(event, UserUpdate) or event.source in sources:
                listener(event)

        return super().subscribe(deliver)


@contextmanager
def opened_for(servers: Iterable[object]) -> Generator[None]:
    """Open streams inside the block for the resources of these servers, which must live as long as the streams."""
    token = _sources.set(frozenset(map(id, servers)))
    try:
        yield
    finally:
        _sources.reset(token)
