"""The result of one check of `spindle doctor`."""

from dataclasses import dataclass, field
from typing import Literal

from spindle.json_types import JsonObject

Status = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    area: str
    name: str
    status: Status
    detail: str
    fix: str | None = None
    """How to fix or improve it."""
    facts: JsonObject = field(default_factory=dict[str, object])
    """More about it, by name."""
