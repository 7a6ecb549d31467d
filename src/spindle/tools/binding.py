"""Doing something when a context is acked."""

import inspect
from collections.abc import Callable
from typing import Protocol

from spindle.errors import InvalidContextError


class AckSource(Protocol):
    """A context that says when its work was accepted."""

    def on_ack(self, fn: Callable[[], object], /) -> Callable[[], object]:
        """Call `fn` on ack, before ack returns; gives back the function that stops it."""
        ...


def bind_to_ack(ctx: AckSource, act: Callable[[], object]) -> Callable[[], None]:
    """Run `act` when `ctx` is acked; the function given back prevents it, and may be called at any time and twice.

    Raises:
        InvalidContextError: `ctx` has no `on_ack` of that shape.
    """
    is_bound = True

    def fire() -> None:
        if is_bound:
            act()

    unsubscribe = _subscribe(ctx, fire)

    def unbind() -> None:
        nonlocal is_bound
        if is_bound:
            is_bound = False
            unsubscribe()

    return unbind


def _subscribe(ctx: object, fire: Callable[[], None]) -> Callable[[], object]:
    on_ack = None if isinstance(ctx, type) else getattr(ctx, "on_ack", None)
    if not callable(on_ack):
        raise _no_context(ctx, "it has no on_ack(fn)")
    unsubscribe = on_ack(fire)
    if inspect.iscoroutine(unsubscribe):
        unsubscribe.close()
    if not callable(unsubscribe):
        raise _no_context(ctx, "its on_ack(fn) gave no function that unsubscribes")
    return unsubscribe


def _no_context(ctx: object, reason: str) -> InvalidContextError:
    given = ctx.__name__ if isinstance(ctx, type) else f"a {type(ctx).__name__}"
    return InvalidContextError(f"cannot bind to {given}: {reason}; pass a DispatchContext", field="ctx")
