"""One portal for each database in a process, however many journals name it."""

import atexit
import os
from threading import Lock
from weakref import WeakValueDictionary

from spindle.journal.backends.postgres_address import Address
from spindle.journal.backends.postgres_portal import Portal

_EXIT_SECONDS = 5.0

_lock = Lock()
_portals: WeakValueDictionary[str, Portal] = WeakValueDictionary()
_inherited: list[Portal] = []
"""Portals of the process this one was forked from: kept, for closing their connections would reach its server."""


def borrow(address: Address, *, grace_seconds: float) -> Portal:
    """Give the portal of a database, to be left again."""
    with _lock:
        portal = _portals.get(address.dsn)
        if portal is None or not portal.enter():
            portal = _portals[address.dsn] = Portal(address, grace_seconds=grace_seconds)
        return portal


def end_all() -> None:
    """Write what is waiting and close every connection, as a process does that ends."""
    for portal in list(_portals.values()):
        portal.end(timeout_seconds=_EXIT_SECONDS)


def _forget_in_child() -> None:
    global _lock  # noqa: PLW0603 - the child is another process, and its parent may have held the lock
    _lock = Lock()
    _inherited.extend(_portals.values())
    _portals.clear()
    for portal in _inherited:
        portal.let_go_in_child()


atexit.register(end_all)
os.register_at_fork(after_in_child=_forget_in_child)
