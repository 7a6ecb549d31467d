"""Which of a tool's declared needs are served, and by what."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spindle.capabilities.declare import CAPABILITY_NAMES, NO_CAPABILITIES, Capabilities


@dataclass(frozen=True, slots=True)
class Backends:
    """What serves each capability for real; `None` serves nobody, so a tool that needs it is refused."""

    network: Any = None
    secrets: Any = None
    storage: Any = None
    files: Any = None
    process: Any = None
    attachments: Any = None


NO_BACKENDS = Backends()


def unserved(needs: Capabilities, backends: Backends) -> list[str]:
    """Name the declared needs that have no backend."""
    return [name for name in CAPABILITY_NAMES if _declared(needs, name) and getattr(backends, name) is None]


def handles(needs: Capabilities, backends: Backends) -> Mapping[str, Any] | None:
    """Give the handle of each declared need, and of no other."""
    if needs is NO_CAPABILITIES:
        return None
    found = {name: getattr(backends, name) for name in CAPABILITY_NAMES if _declared(needs, name)}
    return found or None


def _declared(needs: Capabilities, name: str) -> bool:
    return getattr(needs, name) is not None
