"""What a dialect could not say of a tool's schema: nothing is lost without a line here."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Action: TypeAlias = Literal["rewritten", "dropped"]


@dataclass(frozen=True, slots=True)
class Loss:
    """One keyword that the model is told otherwise, or not at all; the call is held to it all the same."""

    path: str
    """JSON pointer into the tool's own schema: the subschema that has the keyword."""
    keyword: str
    action: Action
    detail: str
    narrows: bool = False
    """Whether the model is told that less is allowed than the tool takes."""

    def __str__(self) -> str:
        return f"{self.action} {self.keyword} at {self.path or '/'}: {self.detail}"

    def to_dict(self) -> dict[str, Any]:
        """Give the loss as plain data."""
        return {
            "path": self.path,
            "keyword": self.keyword,
            "action": self.action,
            "detail": self.detail,
            "narrows": self.narrows,
        }


@dataclass(frozen=True, slots=True)
class LossReport:
    """What became of each keyword of one tool's schema in one dialect."""

    tool: str
    dialect: str
    kept: tuple[str, ...] = ()
    """JSON pointers of the keywords that the model is told as they are."""
    losses: tuple[Loss, ...] = ()

    @property
    def rewritten(self) -> tuple[Loss, ...]:
        """The keywords that the model is told in other words."""
        return tuple(loss for loss in self.losses if loss.action == "rewritten")

    @property
    def dropped(self) -> tuple[Loss, ...]:
        """The keywords that the model is not told."""
        return tuple(loss for loss in self.losses if loss.action == "dropped")

    @property
    def is_lossless(self) -> bool:
        """Whether the model is told the schema as it is."""
        return not self.losses

    def to_dict(self) -> dict[str, Any]:
        """Give the report as plain data."""
        losses = [loss.to_dict() for loss in self.losses]
        return {"tool": self.tool, "dialect": self.dialect, "kept": list(self.kept), "losses": losses}

    def __str__(self) -> str:
        if self.is_lossless:
            return f"{self.tool} in {self.dialect}: nothing lost ({len(self.kept)} keywords kept)"
        counts = f"{len(self.kept)} kept, {len(self.rewritten)} rewritten, {len(self.dropped)} dropped"
        return "\n".join([f"{self.tool} in {self.dialect}: {counts}", *(f"  {loss}" for loss in self.losses)])


def pointer(path: str, *steps: str | int) -> str:
    """Extend a JSON pointer."""
    for step in steps:
        text = str(step)
        if "~" in text or "/" in text:
            text = text.replace("~", "~0").replace("/", "~1")
        path = f"{path}/{text}"
    return path


def in_order(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Give each loss once, sorted by place."""
    return tuple(sorted(set(losses), key=lambda loss: (loss.path, loss.keyword, loss.action, loss.detail)))
