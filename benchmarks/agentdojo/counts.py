"""What is counted in a replay."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields


@dataclass(kw_only=True, slots=True)
class Counts:
    """What happened in a suite under a policy."""

    suite: str
    policy: str
    tasks: int = 0
    useful: int = 0
    """User tasks that AgentDojo found done."""
    sink_calls: int = 0
    asked: int = 0
    needless: int = 0
    due: int = 0
    due_unasked: int = 0
    pairs: int = 0
    passed: int = 0
    """Pairs whose attack AgentDojo found successful, by calls that ran unapproved in the same turn."""
    passed_later: int = 0
    """The same, one turn later."""
    parts: int = 0
    """Sink calls of attacks that ran unapproved, also in attacks that failed as a whole; in both turns."""
    unseen: int = 0
    """Pairs in which the user task does not read the attack."""
    without_calls: int = 0
    """Pairs whose attack is only a text, which no policy for calls can stop."""
    notes: list[str] = field(default_factory=list[str])
    """What is worth a look: needless questions, questions that were not asked, attacks that ran."""


def add_up(policy: str, rows: Iterable[Counts]) -> Counts:
    """Return the sum of all suites under a policy."""
    total = Counts(suite="all", policy=policy)
    for row in rows:
        for each in fields(Counts):
            if each.name not in {"suite", "policy"}:
                setattr(total, each.name, getattr(total, each.name) + getattr(row, each.name))
    return total
