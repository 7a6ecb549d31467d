"""A cache of successful results with a time to live."""

import marshal
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from threading import Lock
from typing import Any

from spindle.calls import Ok
from spindle.execution.call_state import AdmittedCall
from spindle.execution.results import HandlerResult, without_cost
from spindle.tools.filters import ToolFilter

MAX_ENTRIES = 1_000


class ResultCache:
    """An LRU cache of results, never errors, with the time to live of their tool."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = Lock()  # executors are used from several threads
        self._entries: OrderedDict[Hashable, tuple[float, HandlerResult]] = OrderedDict()

    def key(self, state: AdmittedCall, filter: ToolFilter | None) -> Hashable | None:
        """Return the cache key of a call, or `None` if its result must not be cached.

        The key includes the registration, so that a tool registered again starts without entries, and the filter,
        because the tools visible to a caller may affect a result.
        """
        policy = state.entry.tool.cache
        if policy is None:
            return None
        ctx = state.ctx
        scopes = {"session": ctx.session_id, "turn": (ctx.session_id, ctx.turn_id), "global": None}
        try:
            args = state.checksum if policy.key is None else policy.key(state.value)
            hash(args)
        except Exception as error:  # noqa: BLE001  the result is then not cached
            state.warn(f"the cache key callback of {state.call.name!r} failed", source="cache", error=error)
            return None
        return (state.entry.definition, policy.scope, scopes[policy.scope], filter, args)

    def get(self, key: Hashable) -> HandlerResult | None:
        """Return the cached result of a key, or `None` if there is none or it has expired."""
        with self._lock:
            kept = self._entries.get(key)
            if kept is None:
                return None
            expires, handled = kept
            if self._clock() >= expires:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
        return without_cost(_copy(handled))

    def put(self, key: Hashable, handled: HandlerResult, ttl_seconds: float) -> None:
        """Cache a successful result; ignore errors."""
        if not handled.result.ok:
            return
        with suppress(Exception):  # a result that cannot be copied is not cached
            copied = _copy(handled)
            with self._lock:
                self._entries[key] = (self._clock() + ttl_seconds, copied)
                self._entries.move_to_end(key)
                while len(self._entries) > MAX_ENTRIES:
                    self._entries.popitem(last=False)


def _copy(handled: HandlerResult) -> HandlerResult:
    """Return the result with a copy of its structured value, so that callers cannot change the cached one."""
    result = handled.result
    if not isinstance(result, Ok) or result.structured is None:
        return handled
    return handled._replace(result=replace(result, structured=_copy_value(result.structured)))


def _copy_value(value: Any) -> Any:
    try:
        return marshal.loads(marshal.dumps(value))  # noqa: S302  bytes made here; several times faster than deepcopy for plain values
    except ValueError:
        return deepcopy(value)
