"""Which needs of a tool a policy does not grant: asked before any call."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

from spindle.capabilities.declare import CAPABILITY_NAMES, Capabilities, FileReach
from spindle.capabilities.resolve import Backends
from spindle.errors import CapabilityError


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
        messages = _unmet(name, need, getattr(policy, name))
        found += [Unmet(tool=tool.name, capability=name, message=message) for message in messages]
    return found


def _unmet(name: str, need: Any, backend: Any) -> Iterator[str]:
    if backend is None:
        yield f"nothing serves {name}; give Backends({name}=…)"
        return
    asked = cast("Callable[[Any], list[str]] | None", getattr(backend, "lacking", None))
    if asked is None:
        return
    for part in _parts(need):
        try:
            lacking = asked(part)
        except CapabilityError as error:  # what can never be granted, such as a host that is none
            yield f"{name}: {error}"
        else:
            yield from (f"{name}: {what} is not granted" for what in lacking)


def _parts(need: Any) -> Iterator[Any]:
    """Give each of several needs alone, so that one that is no need at all hides no other."""
    if isinstance(need, FileReach):
        yield from (FileReach(read=[path]) for path in need.read)
        yield from (FileReach(write=[path]) for path in need.write)
    elif isinstance(need, tuple):
        yield from ((one,) for one in cast("tuple[str, ...]", need))
    else:
        yield need
