"""How a dialect's schemas differ from full JSON Schema, as data."""

from dataclasses import dataclass
from typing import Literal

from spindle.bridges.limits import Limits


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What one dialect (or its strict form) takes of JSON Schema, and what is done about the rest."""

    keywords: frozenset[str] | None = None
    """What is taken as it is; `None` takes everything."""
    root_keywords: frozenset[str] | None = None
    """What the outermost schema may have, where that is less."""
    formats: frozenset[str] | None = None
    """The values of `format` that are taken; `None` takes every one."""
    refs: Literal["keep", "inline"] = "keep"
    recursion: Literal["keep", "open", "refuse"] = "keep"
    """Whether a reference back to itself stays, is written out a few times and then left open, or cannot be told."""
    types: Literal["any", "one, or null as a flag"] = "any"
    """Whether `type` may be a list; if not, null is told by `nullable`."""
    enum_values: Literal["any", "plain", "strings"] = "any"
    min_items: frozenset[int] | None = None
    """The values of `minItems` that are taken; `None` takes every one."""
    needs_type: bool = False
    """Whether every subschema must have a `type`, an `anyOf` or a reference."""
    needs_items: bool = False
    """Whether every array must have `items`."""
    needs_properties: bool = False
    """Whether the outermost object must have `properties`, if only empty ones."""
    closed: bool = False
    """Whether every object must say `additionalProperties: false`; a map cannot be told then."""
    required: bool = False
    """Whether every property must be required; an optional one takes null instead, which is undone in the call."""
    tell: bool = True
    """Whether a constraint that cannot be expressed is told in the description."""
    limits: Limits | None = None
    """Checked against the lowered schema where given: strict forms refuse what goes beyond."""
    property_pattern: str | None = None
    """What the name of every argument must match; others are mapped, and mapped back in the call."""
    max_property_chars: int | None = None
