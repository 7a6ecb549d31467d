"""Settings of single tools of an upstream server."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace

EVERY_TOOL = "*"
"""The name whose settings apply to the tools that are not named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolSettings:
    """The settings of one tool of a server; `None` leaves the server's setting.

    Raises:
        ValueError: A value is invalid.
    """

    requires_approval: bool | None = None
    """Whether each call must be approved; `False` lifts only the setting of `"*"`, never another rule."""
    timeout_seconds: float | None = None
    """Replaces the server's limit for one call; it may be larger."""
    max_result_chars: int | None = None
    """Replaces the server's limit for one result; it may be larger."""
    hidden: bool | None = None
    """Whether the tool is neither shown nor callable."""

    def __post_init__(self) -> None:
        for name in ("requires_approval", "hidden"):
            if getattr(self, name) not in (None, True, False):
                raise ValueError(f"{name} must be True or False, not {getattr(self, name)!r:.80}")
        seconds, chars = self.timeout_seconds, self.max_result_chars
        if seconds is not None and (isinstance(seconds, bool) or not math.isfinite(seconds) or seconds <= 0):
            raise ValueError(f"timeout_seconds must be a number of seconds above 0, not {seconds!r:.80}")
        if chars is not None and (type(chars) is not int or chars < 1):
            raise ValueError(f"max_result_chars must be a whole number of at least 1, not {chars!r:.80}")

    def fill(self, other: "ToolSettings") -> "ToolSettings":
        """Return a copy in which unset values are those of another."""
        unset = [each.name for each in fields(self) if getattr(self, each.name) is None]
        return replace(self, **{name: getattr(other, name) for name in unset})


_UNSET = ToolSettings()


def get_tool_settings(settings: Mapping[str, ToolSettings], tool: str) -> ToolSettings:
    """Return the settings of a tool by the server's own name: its own, else those of `"*"`, value by value."""
    every = settings.get(EVERY_TOOL, _UNSET)
    # A server may call a tool `*`: it has the settings of a tool that is not named.
    return every if tool == EVERY_TOOL else settings.get(tool, _UNSET).fill(every)


def list_unknown(settings: Mapping[str, ToolSettings], tools: Iterable[str]) -> list[str]:
    """Return the names in the settings that no tool has."""
    known = {*tools, EVERY_TOOL}
    return [name for name in settings if name not in known]
