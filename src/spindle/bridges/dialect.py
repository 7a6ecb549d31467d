"""A dialect as data: its name, its limits, and how schemas are lowered to it."""

from dataclasses import dataclass

from spindle.bridges.limits import Limits
from spindle.bridges.rules import Rules


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """One provider's way to be told about tools."""

    name: str
    limits: Limits
    rules: Rules
    strict_rules: Rules | None = None
    """Of the form whose arguments the provider guarantees; `None` where there is no such form."""
