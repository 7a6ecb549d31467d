"""Keeping what strangers wrote from steering what can do harm.

Once untrusted content has entered a turn, it may have written the model's next call. A sink policy names the tools
whose calls a person must then approve.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol, cast

from spindle.calls import CallOutcome, Ok
from spindle.errors import InvalidTrustError

_REFUSALS: Final = ("input_invalid", "not_available", "denied", "needs_approval")


class ToolFacts(Protocol):
    """What a policy asks of a tool."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether it changes nothing."""
        ...

    @property
    def trusted(self) -> bool:
        """Whether its output may be believed."""
        ...


@dataclass(frozen=True, slots=True, init=False)
class SinkPolicy:
    """Which tools need approval after untrusted content came in: those named here, unless they only read.

    Raises:
        InvalidTrustError: `dangerous` is not a collection of tool names.
    """

    dangerous: frozenset[str]

    def __init__(self, dangerous: Iterable[str]) -> None:
        object.__setattr__(self, "dangerous", _names(dangerous))

    def is_dangerous(self, tool: ToolFacts) -> bool:
        """Say whether a tool can do the harm that this policy guards against."""
        return tool.name in self.dangerous and not tool.read_only

    def needs_approval(self, tool: ToolFacts, *, tainted: bool, batch: Iterable[ToolFacts] = ()) -> bool:
        """Say whether a call of `tool` needs approval: in a tainted turn, or beside a call of an untrusted tool.

        `batch` has the tool of each call of the batch, this one's too, in any order.
        """
        return self.is_dangerous(tool) and (tainted or _others_untrusted(tool, batch))

    def judge(self, batch: Iterable[ToolFacts], *, tainted: bool) -> tuple[bool, ...]:
        """Say for each call of a batch whether it needs approval; as `needs_approval`, for all at once."""
        tools = tuple(batch)
        untrusted = sum(not tool.trusted for tool in tools)
        return tuple(self.is_dangerous(tool) and (tainted or untrusted > (not tool.trusted)) for tool in tools)


def taints(outcome: CallOutcome) -> bool:
    """Say whether an outcome brings untrusted content into its turn.

    An error does, unless the call was refused before its handler began: those words are ours.
    """
    result = outcome.result
    if isinstance(result, Ok):
        return not result.trusted
    return outcome.attempts > 0 or result.code not in _REFUSALS


def _others_untrusted(tool: ToolFacts, batch: Iterable[ToolFacts]) -> bool:
    is_own_seen = False
    for each in batch:
        if each is tool and not is_own_seen:
            is_own_seen = True
        elif not each.trusted:
            return True
    return False


def _names(given: Iterable[str]) -> frozenset[str]:
    # A lone text is an iterable of its letters, and would guard nothing.
    if isinstance(given, str) or not isinstance(cast("object", given), Iterable):
        raise InvalidTrustError("dangerous is a collection of tool names, such as ['send_mail']", field="dangerous")
    names = frozenset(given)
    if not all(isinstance(cast("object", name), str) and name for name in names):
        raise InvalidTrustError("a dangerous tool is named by text that is not empty", field="dangerous")
    return names
