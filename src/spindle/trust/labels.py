"""How far content is believed: four labels in one row, and the rule that nothing climbs.

The row runs from what is believed to what is guarded most. What is made of several things has the label of the worst of
them, so no tool launders what it read.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, get_args

from spindle.calls import CallOutcome, Err, Ok
from spindle.errors import InvalidTrustError

Label: TypeAlias = Literal["trusted", "first-party", "third-party-public", "third-party-private"]
"""`trusted` may be obeyed; `first-party` is our own data and may not; the others came from outside, the last of them
from somebody's private place. The words after the first are the tiers of `Media`."""

UNKNOWN: Final[Label] = "third-party-private"
"""Where nobody knows whose words these are, the label that is guarded most."""

_ROW: Final[tuple[Label, ...]] = get_args(Label)


def join(*labels: Label) -> Label:
    """Label what is derived from things with these labels: the least believed of them.

    Raises:
        InvalidTrustError: One of them is no label, or there is none: of nothing, nothing is known.
    """
    for label in labels:
        if label not in _ROW:
            raise InvalidTrustError(f"{label!r} is no trust label; they are {', '.join(_ROW)}", field="labels")
    if not labels:
        raise InvalidTrustError("a join needs the label of at least one source", field="labels")
    return max(labels, key=_ROW.index)


def is_trusted(label: Label) -> bool:
    """Say whether content with this label may be shown as trusted."""
    return join(label) == "trusted"


def label_of(result: Ok | Err, *, tool_trusted: bool, provenance: Label = UNKNOWN) -> Label:
    """Label a result as the call is recorded: trusted only when the tool, the result and all its media are.

    `provenance` is what a tool's author says about the text of a tool that is not trusted. An error may quote anybody,
    so its label never depends on the tool.
    """
    if isinstance(result, Err):
        return UNKNOWN
    media: list[Label] = [media_label(each, tool_trusted=tool_trusted) for each in result.media]
    is_vouched_for = tool_trusted is True and result.trusted is True
    return join("trusted" if is_vouched_for else join(provenance, "first-party"), *media)


def media_label(media: Any, *, tool_trusted: bool) -> Label:
    """Label media by its own tier; a trusted tool may vouch for what is our own, and for nothing else."""
    tier: object = getattr(media, "trust_tier", None)
    if tier not in _ROW or tier == "trusted":
        return UNKNOWN
    return "trusted" if tier == "first-party" and tool_trusted is True else cast("Label", tier)


def derived_trust(*, tool_trusted: bool, sources: Iterable[bool | Label]) -> bool:
    """Decide the `trusted` flag of what a tool made of artifacts: the tool and every source must be trusted.

    A source is the flag or the label that its call was recorded with.
    """
    return tool_trusted is True and all(source is True or source == "trusted" for source in sources)


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
