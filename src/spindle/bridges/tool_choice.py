"""Which tool a model is told to call, in no dialect yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from spindle.bridges.definitions import Definitions
from spindle.errors import UnknownToolError


@dataclass(frozen=True, slots=True)
class Choice:
    """What a model is told: to choose for itself, to call nothing, something, or one tool."""

    mode: Literal["auto", "none", "required", "tool"]
    wire_name: str = ""
    """Of the one tool."""


def chosen(wish: str | Mapping[str, Any] | None, definitions: Definitions, *, trip: int) -> Choice | None:
    """Read what the caller wishes; a call can be forced on the first trip only, or the turn could never end.

    Raises:
        UnknownToolError: It is a name, and none of the tools shown has it.
    """
    if wish is None or not isinstance(wish, str) or not len(definitions):
        return None
    if wish in {"auto", "none"}:
        return Choice("auto" if wish == "auto" else "none")
    if trip > 0:
        return Choice("auto")
    if wish in {"required", "any"}:
        return Choice("required")
    if wish not in definitions.names.wire:
        raise UnknownToolError(
            f"tool_choice is {wish!r}, and no tool shown to the model has that name; give the name of one of them, "
            '"auto", "none" or "required"',
            tool=wish,
            field="tool_choice",
        )
    return Choice("tool", definitions.names.to_wire(wish))
