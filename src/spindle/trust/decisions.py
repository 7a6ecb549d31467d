"""What a policy decides about a call."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlowDecision:
    """Whether a call needs a person's approval, and why, in sentences for that person."""

    needs_approval: bool
    reasons: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.needs_approval
