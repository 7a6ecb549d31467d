"""Which needs of a tool a policy does not grant: asked before any call."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

from spindle.capabilities.declare import CAPABILITY_NAMES, Capabilities
from spindle.capabilities.resolve import Backends


class Needy(Protocol):
    """What is asked of a tool."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it declares that it needs."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Unmet:
    """One need that is not granted."""

    tool: str
    capability: str
    message: str


def validate(tool: Needy, policy: Backends) -> list[Unmet]:
    """List every need of a tool that a policy does not grant, or grants only in part."""
    found: list[Unmet] = []
    for name in CAPABILITY_NAMES:
        need = getattr(tool.capabilities, name)
        if need is None:
            continue
        backend = getattr(policy, name)
        if backend is None:
            messages = [f"nothing serves {name}; give Backends({name}=…)"]
        else:
            asked = cast("Callable[[Any], list[str]] | None", getattr(backend, "lacking", None))
            messages = [] if asked is None else [f"{name}: {what} is not granted" for what in asked(need)]
        found += [Unmet(tool=tool.name, capability=name, message=message) for message in messages]
    return found
