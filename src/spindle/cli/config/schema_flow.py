"""Schema of `[flow]` and `[profiles.NAME.flow]`: the values and tools that the flow policy of a configuration knows."""

from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from spindle.calls import Label
from spindle.cli.config.schema_types import ConfigSection, Text, Texts
from spindle.errors import InvalidTrustError
from spindle.trust import flow

_ROLES: Final = ("target", "setting", "content", "free")
ANY_TEXT: Final = "*"
"""In the name of a table of `[flow.tools]`, it stands for any text."""


def _check_role(given: str) -> str:
    name, _, kind = given.partition(":")
    if given not in _ROLES and (name != "ref" or not kind.strip()):
        raise ValueError(f"expected a role ({', '.join(_ROLES)}, or ref:KIND such as ref:file), got {given!r:.80}")
    return given


def _check_produces(given: str | dict[str, str]) -> str | dict[str, str]:
    try:
        flow.Produces.read(given)
    except InvalidTrustError as error:  # pydantic reports a ValueError with its key
        raise ValueError(str(error)) from None
    return given


def _check_whole_name(given: str) -> str:
    if ANY_TEXT in given:
        raise ValueError(f"expected the whole name of a tool, got {given!r:.80}; patterns are for [flow.tools]")
    return given


ToolName = Annotated[Text, AfterValidator(_check_whole_name)]
ToolNames = Annotated[tuple[ToolName, ...], Field(strict=False)]
RoleText = Annotated[Text, AfterValidator(_check_role)]
"""`target`, `setting`, `content`, `free`, or `ref:KIND`."""
ArgumentPath = Annotated[str, StringConstraints(pattern=r"^[^.]+(\.[^.]+)*$")]


class FlowToolEntry(ConfigSection):
    """`[flow.tools."NAME"]`: what the operator knows about a tool, or about all that match a pattern with `*`."""

    output: Label | None = None
    """The trust label of its results."""
    read_only: bool | None = None
    """Whether it changes nothing; a value can still leave by it, so its texts stay targets if it runs elsewhere."""
    destructive: bool | None = None
    """Whether its effect cannot be undone; it is then always asked about in a tainted session."""
    produces: Annotated[str | dict[str, str], AfterValidator(_check_produces)] | None = None
    """The records it returns: a kind such as `"file"`, or `{ file = "items.*.id" }`."""
    roles: dict[ArgumentPath, RoleText] = {}
    """The roles of its arguments, by dotted path."""

    @model_validator(mode="after")
    def _check_effect(self) -> Self:
        if self.read_only and self.destructive:
            raise ValueError("expected read_only or destructive, not both")
        return self


class FlowSection(ConfigSection):
    """`[flow]`: calls that a person must approve, because neither the user nor the operator chose their values."""

    enabled: bool = True
    """Whether calls are judged; without the table they are not."""
    sinks: ToolNames | None = None
    """Exactly the tools whose calls are judged; by default all that change something or have a target."""
    directory: dict[Text, Texts] = {}
    """Values that the operator vouches for, by role (`target`, `setting`, `content`) or by kind of reference."""
    readers: dict[ToolName, Texts] = {}
    """Who may see what a private source returned, by tool; `"*"` for everyone."""
    tools: dict[Text, FlowToolEntry] = {}
    """Declarations by the name of a tool, or by a pattern."""


class ProfileFlowToolEntry(ConfigSection):
    """`[profiles.NAME.flow.tools."NAME"]`: how a profile treats a tool more strictly."""

    output: Literal["first-party", "third-party-public", "third-party-private"] | None = None
    destructive: Literal[True] | None = None


class ProfileFlowSection(ConfigSection):
    """`[profiles.NAME.flow]`: how the flow policy is stricter for one profile; nothing in it can loosen `[flow]`."""

    sinks: ToolNames = ()
    """Tools that are judged besides those of `[flow]`."""
    directory: dict[Text, Texts] | None = None
    """The part of `[flow] directory` that this profile keeps; all of it by default."""
    readers: dict[ToolName, Texts] | None = None
    """The part of `[flow] readers` that this profile keeps; all of it by default."""
    tools: dict[Text, ProfileFlowToolEntry] = {}
