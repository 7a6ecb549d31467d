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

    def request(self, resources: Iterable[str], *, shared: bool) -> "LockRequest":
        """Queue for `resources` and return the request; requests are served in join order.

        Raises:
            UsageError: `resources` is not an iterable of names.
        """
        names = _check_names(resources)
        ticket = LockRequest(self, names, shared=shared)
        with self._lock:
            for name in names:
                queue = self._queues.get(name)
                if queue is None:
                    queue = self._queues[name] = _Queue()
                ticket.pending += not queue.add(ticket)
        return ticket

    def release(self, request: "LockRequest") -> None:
        """Release or withdraw a request, and grant the requests that waited for it."""
        with self._lock:
            if request.is_released:
                return
            request.is_released = True
            ready = [follower for name in request.resources for follower in self._remove(request, name)]
        for woken in (request, *ready):
            woken.wake()

    def _remove(self, request: "LockRequest", name: str) -> list["LockRequest"]:
        queue = self._queues[name]
        admitted = queue.remove(request)
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

    __slots__ = ("_granted_event", "_locks", "is_released", "pending", "resources", "shared")

    def __init__(self, locks: ResourceLocks, resources: tuple[str, ...], *, shared: bool) -> None:
        self._locks = locks
        self._granted_event: ThreadsafeEvent | None = None
        self.resources = resources
        self.shared = shared
        self.pending = 0
        """The number of its resources that are not granted yet."""
        self.is_released = False

    @property
    def is_ready(self) -> bool:
        """Whether all locks are granted."""
        return not self.pending and not self.is_released

    async def wait_ready(self) -> None:
        """Wait until all locks are granted; return without a checkpoint if they already are.

        Raises:
            UsageError: The request was released before or while this waits.
        """
        if self.pending and not self.is_released:
            if self._granted_event is None:
                self._granted_event = ThreadsafeEvent()
            # Checked again: another thread may have granted the request before the event existed.
            if self.pending and not self.is_released:
                await self._granted_event.wait()
        if self.is_released:
            raise UsageError(
                "This lock request was released; call join() again to use the resources.", field="resources"
            )

    def release(self) -> None:
        """Release the locks, or withdraw a waiting request; a second call does nothing."""
        self._locks.release(self)

    def wake(self) -> None:
        """Wake the waiting task so that it checks the request again."""
        if self._granted_event is not None:
            self._granted_event.set()


class _Queue:
    """The holders and the waiting requests of one resource."""

    __slots__ = ("_holders", "_waiting")

    def __init__(self) -> None:
        self._holders: set[LockRequest] = set()
        self._waiting: OrderedDict[LockRequest, None] = OrderedDict()

    @property
    def is_empty(self) -> bool:
        return not self._holders and not self._waiting

    def add(self, request: LockRequest) -> bool:
        """Enqueue a request; return whether it was granted at once."""
        if not self._waiting and self._can_grant(request):
            self._holders.add(request)
            return True
        self._waiting[request] = None
        return False

    def remove(self, request: LockRequest) -> list[LockRequest]:
        """Remove a request; return the requests that were granted by it."""
        self._holders.discard(request)
        self._waiting.pop(request, None)
        admitted: list[LockRequest] = []
        # Readers do not overtake a waiting writer.
        while self._waiting and self._can_grant(first := next(iter(self._waiting))):
            del self._waiting[first]
            self._holders.add(first)
            admitted.append(first)
        return admitted

    def _can_grant(self, request: LockRequest) -> bool:
        # Holders are either all readers or one writer, so the first one decides.
        return not self._holders or (request.shared and next(iter(self._holders)).shared)


def _check_names(resources: Iterable[object]) -> tuple[str, ...]:
    # A single string is an iterable of characters, which is never intended.
    given = (resources,) if isinstance(resources, (str, bytes)) else tuple(resources)
    if isinstance(resources, (str, bytes)) or not all(isinstance(name, str) for name in given):
        raise UsageError(
            f"resources must be an iterable of names (str), such as ['file:a.txt']; got {resources!r:.200}",
            field="resources",
        )
    return tuple(dict.fromkeys(cast("tuple[str, ...]", given)))
