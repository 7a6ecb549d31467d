"""`UpdateBus`: carries events to the streams of clients; what a user's connection reports only to his own streams."""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
)
from typing_extensions import override

from spindle.mcp.client.user_connections import DEFAULT_USER


@dataclass(frozen=True)
class UserUpdate(ResourceUpdated):
    """A resource that a server with OAuth has changed for one user."""

    source: int
    """The identity of the user's connection."""


@dataclass(frozen=True)
class UserPrompts(PromptsListChanged):
    """Prompts that a server with OAuth has changed for one user."""

    user: str


@dataclass(frozen=True)
class UserResources(ResourcesListChanged):
    """Resources that a server with OAuth has changed for one user."""

    user: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stream:
    """Whom a stream is for."""

    user: str | None = None
    sources: frozenset[int] = frozenset()

    def gets(self, event: ServerEvent) -> bool:
        match event:
            case UserUpdate(source=source):
                return source in self.sources
            case UserPrompts(user=user) | UserResources(user=user):
                return user == self.user
            case _:
                return True


_stream: ContextVar[_Stream | None] = ContextVar("spindle_update_stream", default=None)


class UpdateBus(InMemorySubscriptionBus):
    """A bus whose streams hear of one user's events only if they were opened for him."""

    @override
    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Register the listener of a stream."""
        stream = _stream.get() or _Stream()

        def deliver(event: ServerEvent) -> None:
            if stream.gets(event):
                listener(event)

        return super().subscribe(deliver)


@contextmanager
def opened_for(user: str | None, servers: Iterable[object]) -> Generator[None]:
    """Open streams of a user inside the block, for the resources of servers, which must live as long as the streams."""
    token = _stream.set(_Stream(user=find_name(user), sources=frozenset(map(id, servers))))
    try:
        yield
    finally:
        _stream.reset(token)


def find_name(user: str | None) -> str:
    """Return the name of a client's user; where there are no users, it is the only one."""
    return DEFAULT_USER if user is None else user
