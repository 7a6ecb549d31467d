"""FIFO reader/writer locks on named resources. No I/O."""

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import cast

from spindle.concurrency import ThreadsafeEvent
from spindle.errors import UsageError


class ResourceLocks:
    """The lock queues of all resources in use; a resource is only a name.

    A request enters all its queues in one step, so every queue has the same order and requests cannot deadlock.
    Requests may belong to different event loops.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._queues: dict[str, _Queue] = {}

    def join(self, resources: Iterable[str], *, shared: bool) -> "LockRequest":
        """Queue for `resources` and return the request; requests are served in join order.

        Raises:
            UsageError: `resources` is not an iterable of names.
        """
        names = _names(resources)
        ticket = LockRequest(self, names, shared=shared)
        with self._lock:
            for name in names:
                queue = self._queues.get(name)
                if queue is None:
                    queue = self._queues[name] = _Queue()
                ticket.pending += not queue.enter(ticket)
        return ticket

    def leave(self, ticket: "LockRequest") -> None:
        """Release or withdraw a request, and grant the requests that waited for it."""
        with self._lock:
            if ticket.has_left:
                return
            ticket.has_left = True
            ready = [follower for name in ticket.resources for follower in self._remove(ticket, name)]
        for woken in (ticket, *ready):
            woken.wake()

    def _remove(self, ticket: "LockRequest", name: str) -> list["LockRequest"]:
        queue = self._queues[name]
        admitted = queue.exit(ticket)
        if queue.is_empty:
            del self._queues[name]
        for follower in admitted:
            follower.pending -= 1
        return [follower for follower in admitted if not follower.pending]

    @property
    def in_use(self) -> int:
        """The number of resources that are locked or waited for; no others are tracked."""
        return len(self._queues)


class LockRequest:
    """A request for locks on some resources."""

    __slots__ = ("_lanes", "_wakeup", "has_left", "pending", "resources", "shared")

    def __init__(self, lanes: ResourceLocks, resources: tuple[str, ...], *, shared: bool) -> None:
        self._lanes = lanes
        self._wakeup: ThreadsafeEvent | None = None
        self.resources = resources
        self.shared = shared
        self.pending = 0
        """The number of its resources that are not granted yet."""
        self.has_left = False

    @property
    def is_ready(self) -> bool:
        """Whether all locks are granted."""
        return not self.pending and not self.has_left

    async def ready(self) -> None:
        """Wait until all locks are granted; return without a checkpoint if they already are.

        Raises:
            UsageError: The request was released before or while this waits.
        """
        if self.pending and not self.has_left:
            if self._wakeup is None:
                self._wakeup = ThreadsafeEvent()
            # Checked again: another thread may have granted the request before the event existed.
            if self.pending and not self.has_left:
                await self._wakeup.wait()
        if self.has_left:
            raise UsageError(
                "This lock request was released; call join() again to use the resources.", field="resources"
            )

    def leave(self) -> None:
        """Release the locks, or withdraw a waiting request; a second call does nothing."""
        self._lanes.leave(self)

    def wake(self) -> None:
        """Wake the waiting task so that it checks the request again."""
        if self._wakeup is not None:
            self._wakeup.set()


class _Queue:
    """The holders and the waiting requests of one resource."""

    __slots__ = ("_inside", "_waiting")

    def __init__(self) -> None:
        self._inside: set[LockRequest] = set()
        self._waiting: OrderedDict[LockRequest, None] = OrderedDict()

    @property
    def is_empty(self) -> bool:
        return not self._inside and not self._waiting

    def enter(self, ticket: LockRequest) -> bool:
        """Enqueue a request; return whether it was granted at once."""
        if not self._waiting and self._admits(ticket):
            self._inside.add(ticket)
            return True
        self._waiting[ticket] = None
        return False

    def exit(self, ticket: LockRequest) -> list[LockRequest]:
        """Remove a request; return the requests that were granted by it."""
        self._inside.discard(ticket)
        self._waiting.pop(ticket, None)
        admitted: list[LockRequest] = []
        # Readers do not overtake a waiting writer.
        while self._waiting and self._admits(first := next(iter(self._waiting))):
            del self._waiting[first]
            self._inside.add(first)
            admitted.append(first)
        return admitted

    def _admits(self, ticket: LockRequest) -> bool:
        # Holders are either all readers or one writer, so the first one decides.
        return not self._inside or (ticket.shared and next(iter(self._inside)).shared)


def _names(resources: Iterable[object]) -> tuple[str, ...]:
    # A single string is an iterable of characters, which is never intended.
    given = (resources,) if isinstance(resources, (str, bytes)) else tuple(resources)
    if isinstance(resources, (str, bytes)) or not all(isinstance(name, str) for name in given):
        raise UsageError(
            f"resources must be an iterable of names (str), such as ['file:a.txt']; got {resources!r:.200}",
            field="resources",
        )
    return tuple(dict.fromkeys(cast("tuple[str, ...]", given)))
