"""The ports of a context, which run tools and record events of a call, and the checks of the values it is made of."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from spindle.errors import InvalidContextError
from spindle.events import Events

if TYPE_CHECKING:
    from spindle.calls import RawArgs
    from spindle.json_types import JsonObject


class ToolRunner(Protocol):
    """Port that runs single tools in a context as its executor promises: filter, approval, deadline, isolation, …

    Its `ctx` is a `ToolContext`, whose module imports this one.
    """

    def find_plain_timeout(self, ctx: Any) -> float | None:
        """Return the seconds, or infinity, that a plain async tool may run without this; `None` if it must not."""
        ...

    async def run_tool(self, tool: Any, args: "RawArgs", ctx: Any) -> object:
        """Run one call and return the handler's value.

        Raises:
            CallError: The call was refused or failed.
        """
        ...


class EventRecorder(Protocol):
    """Port that keeps what a call emits; safe to use from any thread, and cheap for calls that emit very much."""

    def record(self, kind: str, text: object, detail: object = None) -> None:
        """Keep one event; a handler may pass anything, which must not fail its call."""
        ...


def check_context_values(*, session_id: object, turn_id: object, events: object, result_budget_chars: object) -> None:
    """Check the values of a context.

    Raises:
        InvalidContextError: Names the first value that has the wrong type.
    """
    if not isinstance(session_id, str):
        raise _unfit("session_id", "text", session_id)
    if turn_id is not None and not isinstance(turn_id, str):
        raise _unfit("turn_id", "text or None", turn_id)
    if events is not None and not isinstance(events, Events):
        raise _unfit("events", "Events() or None", events)
    if result_budget_chars is not None and (type(result_budget_chars) is not int or result_budget_chars < 0):
        raise _unfit("result_budget_chars", "a whole number of characters, or None", result_budget_chars)


def copy_redacted(payload: "JsonObject", redact: Callable[[str], str]) -> "JsonObject":
    """Return a copy of the payload of a log line as plain JSON with every secret masked."""
    try:
        return json.loads(redact(json.dumps(payload, default=str)), parse_constant=str)
    except Exception:  # noqa: BLE001  logging must not fail the call, and nothing unmasked may be emitted
        return {"payload": "(cannot be shown)"}


def _unfit(field: str, expected: str, given: object) -> InvalidContextError:
    return InvalidContextError(f"ToolContext({field}=…): expected {expected}, got {given!r:.80}.", field=field)
