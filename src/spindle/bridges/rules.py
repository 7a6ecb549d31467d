"""How a dialect's schemas differ from full JSON Schema, as data."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from spindle.bridges.limits import Limits

Values: TypeAlias = Literal["any", "plain", "strings"]
"""Of an `enum`: anything, no objects and lists, or texts that are not empty."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What one dialect (or its strict form) takes of JSON Schema, and what is done about the rest."""

    as_written: bool = False
    """Whether the schema is told in its own draft, word for word."""
    keywords: frozenset[str] | None = None
    """What is taken; `None` takes everything, unknown words too."""
    root_keywords: frozenset[str] | None = None
    """What the outermost schema may have, where that is less."""
    root_banned: frozenset[str] = frozenset()
    """What the outermost schema may not have."""
    formats: frozenset[str] | None = None
    """The values of `format` that are taken; `None` takes every one."""
    inline: bool = False
    """Whether every reference is written out in its place; recursion is then left open after a few rounds."""
    recursion: bool = True
    """Whether a reference may lead back to itself."""
    lone_refs: bool = False
    """Whether a reference stands alone, without a description beside it."""
    lone_unions: bool = False
    """Whether `anyOf` stands alone, without a description beside it."""
    type_lists: bool = True
    """Whether `type` may be a list; if not, null is told by `nullable`, and other lists by `anyOf`."""
    enum_values: Values = "any"
    min_items: frozenset[int] | None = None
    """The values of `minItems` that are taken; `None` takes every one."""
    needs_type: bool = False
    """Whether every subschema must have a `type`, an `anyOf` or a reference."""
    any_value: bool = True
    """Whether a value of any type can be told at all."""
    needs_properties: bool = False
    """Whether arguments without properties must be left out altogether."""
    needs_items: bool = False
    """Whether every array must have `items`."""
    closed: bool = False
    """Whether every object must say `additionalProperties: false`; a map cannot be told then."""
    all_required: bool = False
    """Whether every property must be required; an optional one takes null instead, which is undone in the call."""
    strict_limits: Limits | None = None
    """What the strict form takes at most; beyond it, a tool is told in the loose form."""
    name_limits: Limits | None = None
    """What the names of arguments may be; others are mapped, and mapped back in the call."""

    def takes(self, keyword: str, *, root: bool) -> bool:
        """Say whether a subschema may have a keyword."""
        if root and (
            keyword in self.root_banned or (self.root_keywords is not None and keyword not in self.root_keywords)
        ):
            return False
        return self.keywords is None or keyword in self.keywords
