"""Reports which parts of a tool's schema a dialect could not express; every loss has an entry."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from spindle.json_types import JsonObject

Action: TypeAlias = Literal["rewritten", "dropped"]


@dataclass(frozen=True, slots=True)
class Loss:
    """A keyword that the model sees changed or not at all; calls are still validated against it."""

    path: str
    """JSON pointer to the subschema with the keyword, in the tool's own schema."""
    keyword: str
    action: Action
    detail: str
    narrows: bool = False
    """Whether the model sees a stricter schema than the tool's own."""

    def __str__(self) -> str:
        return f"{self.action} {self.keyword} at {self.path or '/'}: {self.detail}"

    def to_dict(self) -> JsonObject:
        """Return the loss as plain data."""
        return {
            "path": self.path,
            "keyword": self.keyword,
            "action": self.action,
            "detail": self.detail,
            "narrows": self.narrows,
        }


@dataclass(frozen=True, slots=True)
class LossReport:
    """The fate of each keyword of one tool's schema in one dialect."""

    tool: str
    dialect: str
    kept: tuple[str, ...] = ()
    """JSON pointers of the keywords that are emitted unchanged."""
    losses: tuple[Loss, ...] = ()

    @property
    def rewritten(self) -> tuple[Loss, ...]:
        """The keywords that are emitted in another form."""
        return tuple(loss for loss in self.losses if loss.action == "rewritten")

    @property
    def dropped(self) -> tuple[Loss, ...]:
        """The keywords that are not emitted."""
        return tuple(loss for loss in self.losses if loss.action == "dropped")

    @property
    def is_lossless(self) -> bool:
        """Whether the schema is emitted unchanged."""
        return not self.losses

    def to_dict(self) -> JsonObject:
        """Return the report as plain data."""
        losses = [loss.to_dict() for loss in self.losses]
        return {"tool": self.tool, "dialect": self.dialect, "kept": list(self.kept), "losses": losses}

    def __str__(self) -> str:
        if self.is_lossless:
            return f"{self.tool} in {self.dialect}: nothing lost ({len(self.kept)} keywords kept)"
        counts = f"{len(self.kept)} kept, {len(self.rewritten)} rewritten, {len(self.dropped)} dropped"
        return "\n".join([f"{self.tool} in {self.dialect}: {counts}", *(f"  {loss}" for loss in self.losses)])


def sort_losses(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Return each loss once, sorted by path."""
    return tuple(sorted(set(losses), key=lambda loss: (loss.path, loss.keyword, loss.action, loss.detail)))
