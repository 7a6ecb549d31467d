"""Whether a tool says that it can be used now."""

import inspect
from collections.abc import Callable

from spindle.events import Events
from spindle.tools.declaration import Tool

_UNOBSERVED = Events()
"""Warnings sent here end in the log."""


def is_available(tool: Tool, events: Events | None = None) -> bool:
    """Ask the tool; one that fails to answer counts as unavailable, and that is reported as a warning."""
    ask = tool.is_available
    return ask is None or _answer(tool.name, ask, events or _UNOBSERVED)


def _answer(name: str, ask: Callable[[], object], events: Events) -> bool:
    try:
        answer = ask()
        if not inspect.isawaitable(answer):
            return bool(answer)
    except Exception as error:  # noqa: BLE001  a guard that raises refuses, whatever it raised
        message = f"the tool {name!r} counts as unavailable: its is_available raised {type(error).__name__}"
        events.warn(message, source="is_available", error=error)
        return False
    # Never awaited, an awaitable would be taken for a yes.
    if inspect.iscoroutine(answer):
        answer.close()
    events.warn(
        f"the tool {name!r} counts as unavailable: its is_available gave an awaitable; it must answer at once",
        source="is_available",
    )
    return False
