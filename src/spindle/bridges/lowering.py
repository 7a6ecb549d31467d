"""Lower a tool's JSON Schema to what a dialect takes, and say what was lost."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

from spindle.bridges.losses import Loss
from spindle.bridges.rules import Rules


class Restore(Protocol):
    """Undoes in a call's arguments what lowering rewrote."""

    def __call__(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Give the arguments as the tool's own schema has them; what came is not changed."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Lowered:
    """A schema in a dialect's words, with what became of each keyword."""

    schema: dict[str, Any]
    kept: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()
    restore: Restore | None = None
    """`None` where arguments need no change on the way back."""


def lower(schema: Mapping[str, Any], rules: Rules) -> Lowered:  # noqa: ARG001  the rules come next
    """Give the schema in the dialect's words.

    Raises:
        CannotLowerError: The dialect cannot take it at all.
    """
    return Lowered(schema=deepcopy(dict(schema)))
