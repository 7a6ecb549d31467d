"""How far content is believed: four labels in one row, and the rule that nothing climbs.

The row runs from what is believed to what is guarded most. What is made of several things has the label of the worst of
them, so no tool launders what it read.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from spindle.calls import Err, Ok
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
