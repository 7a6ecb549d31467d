"""The port that runs the tools used in a context, and the checks of the values a context is made of."""

from typing import TYPE_CHECKING, Any, Protocol

from spindle.errors import InvalidContextError
from spindle.events import Events

if TYPE_CHECKING:
    from spindle.calls import RawArgs


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


def _unfit(field: str, expected: str, given: object) -> InvalidContextError:
    return InvalidContextError(f"ToolContext({field}=…): expected {expected}, got {given!r:.80}.", field=field)
