"""Good results that may be given again for a while."""

import marshal
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any

from spindle.calls import Ok
from spindle.execution.call_state import CallState
from spindle.execution.results import HandlerResult, without_cost
from spindle.tools.filters import ToolFilter

MAX_ENTRIES = 1_000


class ResultCache:
    """Keeps results, never errors, until their tool's time is over; the least recently used goes first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, tuple[float, HandlerResult]] = OrderedDict()

    def key(self, job: CallState, filter: ToolFilter | None) -> Hashable | None:
        """Name what a result may be given again for; `None` when it may not.

        The registration is part of it, so that a tool registered anew starts anew; and so is the filter, for what a
        caller may see can shape what a tool answers.
        """
        policy = job.entry.tool.cache
        if policy is None:
            return None
        ctx = job.ctx
        scopes = {"session": ctx.session_id, "turn": (ctx.session_id, ctx.turn_id), "global": None}
        try:
            args = job.checksum if policy.key is None else policy.key(job.value)
            hash(args)
        except Exception as error:  # noqa: BLE001  a result is then simply not kept
            ctx.events.warn(f"the cache key of {job.call.name!r} failed", source="cache", error=error)
            return None
        return (job.entry.definition, policy.scope, scopes[policy.scope], filter, args)

    def get(self, key: Hashable) -> HandlerResult | None:
        """Give what is kept under a key, if its time is not over."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        expires, settled = kept
        if self._clock() >= expires:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return without_cost(_copy(settled))

    def put(self, key: Hashable, settled: HandlerResult, ttl_seconds: float) -> None:
        """Keep a good result."""
        if not settled.result.ok:
            return
        with suppress(Exception):  # what cannot be copied is not kept
            self._kept[key] = (self._clock() + ttl_seconds, _copy(settled))
            self._kept.move_to_end(key)
        while len(self._kept) > MAX_ENTRIES:
            self._kept.popitem(last=False)


def _copy(settled: HandlerResult) -> HandlerResult:
    """Give the result with values of its own, so that nobody who changes them changes what others are given."""
    result = settled.result
    if not isinstance(result, Ok) or result.structured is None:
        return settled
    return HandlerResult(replace(result, structured=_copied(result.structured)), settled.full_bytes)


def _copied(value: Any) -> Any:
    try:
        return marshal.loads(marshal.dumps(value))  # noqa: S302  our own bytes; several times faster for plain values
    except ValueError:
        return deepcopy(value)
