"""Who may use a resource now: readers together, writers alone, everyone in the order they came. No I/O."""

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import cast

from spindle.concurrency import ThreadsafeEvent
from spindle.errors import UsageError


class ResourceLocks:
    """The queues of all resources in use; a resource is only a name.

    Joining is one step: a ticket takes its place in all its queues at once, so every queue has the same order and no
    two tickets can wait for each other. Tickets may belong to any event loop.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._queues: dict[str, _Queue] = {}

    def join(self, resources: Iterable[str], *, shared: bool) -> "LockRequest":
        """Queue for `resources` and give the place; the order of joins is the order of service.

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
        """Give up a ticket's places, and let in those who waited for them."""
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
        """How many resources are used or waited for; nothing is kept of any other."""
        return len(self._queues)


class LockRequest:
    """A place in the queues of some resources."""

    __slots__ = ("_lanes", "_wakeup", "has_left", "pending", "resources", "shared")

    def __init__(self, lanes: ResourceLocks, resources: tuple[str, ...], *, shared: bool) -> None:
        self._lanes = lanes
        self._wakeup: ThreadsafeEvent | None = None
        self.resources = resources
        self.shared = shared
        self.pending = 0
        """So many of its resources are still in use by others."""
        self.has_left = False

    @property
    def is_ready(self) -> bool:
        """Whether the resources may be used now."""
        return not self.pending and not self.has_left

    async def ready(self) -> None:
        """Wait until the resources may be used; returns without a pause when they may be already.

        Raises:
            UsageError: The ticket has left, or leaves while this waits.
        """
        if self.pending and not self.has_left:
            if self._wakeup is None:
                self._wakeup = ThreadsafeEvent()
            # Looked at again: another thread may have let this ticket in before it could have woken us.
            if self.pending and not self.has_left:
                await self._wakeup.wait()
        if self.has_left:
            raise UsageError("this ticket has left its queues; join again to use the resources", field="resources")

    def leave(self) -> None:
        """Give up the place: after use, or while waiting. Leaving twice is leaving once."""
        self._lanes.leave(self)

    def wake(self) -> None:
        """Tell the one who waits that something changed."""
        if self._wakeup is not None:
            self._wakeup.set()


class _Queue:
    """One resource: who uses it, and who waits in which order."""

    __slots__ = ("_inside", "_waiting")

    def __init__(self) -> None:
        self._inside: set[LockRequest] = set()
        self._waiting: OrderedDict[LockRequest, None] = OrderedDict()

    @property
    def is_empty(self) -> bool:
        return not self._inside and not self._waiting

    def enter(self, ticket: LockRequest) -> bool:
        """Take the last place; says whether the ticket is inside at once."""
        if not self._waiting and self._admits(ticket):
            self._inside.add(ticket)
            return True
        self._waiting[ticket] = None
        return False

    def exit(self, ticket: LockRequest) -> list[LockRequest]:
        """Give up a place; gives those who got inside by it."""
        self._inside.discard(ticket)
        self._waiting.pop(ticket, None)
        admitted: list[LockRequest] = []
        # A writer that waits stops the row: readers behind it do not overtake it.
        while self._waiting and self._admits(first := next(iter(self._waiting))):
            del self._waiting[first]
            self._inside.add(first)
            admitted.append(first)
        return admitted

    def _admits(self, ticket: LockRequest) -> bool:
        # Readers are inside with readers only, so one of them speaks for all.
        return not self._inside or (ticket.shared and next(iter(self._inside)).shared)


def _names(resources: Iterable[object]) -> tuple[str, ...]:
    # A lone text is an iterable of its letters, which nobody means.
    given = (resources,) if isinstance(resources, (str, bytes)) else tuple(resources)
    if isinstance(resources, (str, bytes)) or not all(isinstance(name, str) for name in given):
        raise UsageError(
            f"resources must be an iterable of names (str), such as ['file:a.txt']; got {resources!r:.200}",
            field="resources",
        )
    return tuple(dict.fromkeys(cast("tuple[str, ...]", given)))
