"""Where a text of a session came from."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from spindle.trust.labels import Label

SourceKind: TypeAlias = Literal["user", "result", "argument", "earlier"]


@dataclass(frozen=True, eq=False, slots=True)
class Source:
    """Where a text came from."""

    order: int
    """Its place in the session."""
    kind: SourceKind
    label: Label
    call_id: str = ""
    tool: str = ""
    is_partial: bool = False
    """Whether only its beginning is in the ledger."""
    is_computed: bool = False
    """Whether the model chose numbers for the call, of which numbers in the result may be made."""
    about: tuple[str, ...] = ()
    """The values of the call's arguments: the record that was read, the person who was looked up."""

    def __str__(self) -> str:
        if self.kind == "user":
            return "the user's words"
        if self.kind == "earlier":
            return "an earlier part of the session"
        return f"result {self.call_id} of {self.tool}"
