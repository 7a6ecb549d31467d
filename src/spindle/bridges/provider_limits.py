"""What each provider takes at most, as data: every number with where and when it was read."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from types import MappingProxyType
from typing import Literal, TypeAlias

from spindle.errors import NameClashError

_READ = date(2026, 11, 16)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a limit is written down."""

    url: str
    read_on: date
    says: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The limits of one dialect; `None` is none that is known."""

    name_pattern: str
    """What a tool's whole name must match."""
    max_name_chars: int
    max_tools: int | None = None
    tools_limit: Literal["refuse", "warn"] = "refuse"
    """Whether a list over `max_tools` is refused when it is built, or only warned about."""
    property_pattern: str | None = None
    """What the name of every argument must match."""
    max_property_chars: int | None = None
    max_schema_depth: int | None = None
    """Levels of objects and arrays inside each other, the arguments themselves being the first; in strict mode."""
    max_properties: int | None = None
    """Properties of all objects of one tool together; in strict mode."""
    max_enum_values: int | None = None
    """Values of all enums of one tool together; in strict mode."""
    max_enum_chars: int | None = None
    """Characters of one enum that has more than `long_enum_values` values; in strict mode."""
    long_enum_values: int | None = None
    max_schema_chars: int | None = None
    """Characters of all property names, definition names, enum and const values together; in strict mode."""
    max_strict_tools: int | None = None
    """Strict tools of one request; what is beyond is told in the loose form."""
    max_strict_optional: int | None = None
    """Properties that are not required, in all strict tools of one request together."""
    max_strict_unions: int | None = None
    """Properties of more than one type, in all strict tools of one request together."""
    id_pattern: str | None = None
    """What the id of a call must match when the conversation is sent back."""
    max_id_chars: int | None = None
    max_media_bytes: int | None = None
    """Of one image or document."""
    sources: tuple[Source, ...]


_OPENAI_NAMES = Source(
    "https://github.com/openai/openai-python/blob/main/src/openai/types/shared_params/function_definition.py",
    _READ,
    "a function's name is of a-z, A-Z, 0-9, underscores and dashes, at most 64 of them",
)
_OPENAI_COUNT = Source(
    "https://github.com/openai/openai-openapi/pull/76",
    _READ,
    "a list of functions has at most 128; the API answers a longer one with array_above_max_length",
)
_OPENAI_STRICT = Source(
    "https://platform.openai.com/docs/guides/structured-outputs#supported-schemas",
    _READ,
    "strict schemas: 5,000 properties in all, 10 levels, 1,000 enum values, 120,000 characters of names and values, "
    "15,000 characters in an enum of more than 250 values (read at "
    "https://jsonschemaprofiles.unitvectorylabs.com/schemas/openai)",
)

OPENAI_CHAT = Limits(
    name_pattern=r"[a-zA-Z0-9_-]{1,64}",
    max_name_chars=64,
    max_tools=128,
    max_schema_depth=10,
    max_properties=5_000,
    max_enum_values=1_000,
    max_enum_chars=15_000,
    long_enum_values=250,
    max_schema_chars=120_000,
    sources=(_OPENAI_NAMES, _OPENAI_COUNT, _OPENAI_STRICT),
)

OPENAI_RESPONSES = replace(OPENAI_CHAT)
"""As in Chat Completions: the function tools of both are the same."""

_CLAUDE_STRICT = Source(
    "https://github.com/camel-ai/camel/pull/4171",
    _READ,
    "a request takes at most 20 strict tools, with 24 optional parameters and 16 of a union type in all of them (the "
    "API's own words for the second: https://github.com/elie222/inbox-zero/issues/2323)",
)

ANTHROPIC = Limits(
    name_pattern=r"[a-zA-Z0-9_-]{1,128}",
    max_name_chars=128,
    property_pattern=r"[a-zA-Z0-9_.-]{1,64}",
    max_property_chars=64,
    max_strict_tools=20,
    max_strict_optional=24,
    max_strict_unions=16,
    id_pattern=r"[a-zA-Z0-9_-]{1,64}",
    max_id_chars=64,
    max_media_bytes=3_900_000,
    sources=(
        Source(
            "https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools",
            _READ,
            "a tool's name matches ^[a-zA-Z0-9_-]{1,128}$",
        ),
        Source(
            "https://platform.claude.com/docs/en/managed-agents/self-hosted-sandboxes",
            _READ,
            "names of properties are of letters, digits, underscores, dots and hyphens, 1 to 64 of them",
        ),
        Source(
            "https://github.com/anthropics/claude-code/issues/14887",
            _READ,
            "an image of more than 5,242,880 bytes, written as base64, is refused",
        ),
        _CLAUDE_STRICT,
    ),
)

GEMINI = Limits(
    name_pattern=r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}",
    max_name_chars=128,
    max_tools=512,
    tools_limit="warn",
    property_pattern=r"[a-zA-Z_][a-zA-Z0-9_]{0,63}",
    max_property_chars=64,
    sources=(
        Source(
            "https://github.com/googleapis/python-genai/blob/main/google/genai/types.py",
            _READ,
            "a function's name starts with a letter or an underscore, then letters, digits, underscores, dots, colons "
            "and dashes, at most 128; a parameter's name letters, digits and underscores, at most 64; at most 512 "
            "declarations (models differ, so a longer list is only warned about)",
        ),
    ),
)

BEDROCK = Limits(
    name_pattern=r"[a-zA-Z0-9_-]{1,64}",
    max_name_chars=64,
    property_pattern=ANTHROPIC.property_pattern,
    max_property_chars=ANTHROPIC.max_property_chars,
    max_strict_tools=ANTHROPIC.max_strict_tools,
    max_strict_optional=ANTHROPIC.max_strict_optional,
    max_strict_unions=ANTHROPIC.max_strict_unions,
    id_pattern=r"[a-zA-Z0-9_.:-]{1,64}",
    max_id_chars=64,
    max_media_bytes=3_750_000,
    sources=(
        Source(
            "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolSpecification.html",
            _READ,
            "a tool's name is 1 to 64 characters of [a-zA-Z0-9_-]+",
        ),
        ANTHROPIC.sources[1],
        Source(
            "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolUseBlock.html",
            _READ,
            "a toolUseId is 1 to 64 characters of [a-zA-Z0-9_.:-]+",
        ),
        Source(
            "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html",
            _READ,
            "an image is at most 3.75 MB, a document at most 4.5 MB; the smaller is taken for both",
        ),
        _CLAUDE_STRICT,
    ),
)

MCP = Limits(
    name_pattern=r"[A-Za-z0-9_.-]{1,128}",
    max_name_chars=128,
    sources=(
        Source(
            "https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names",
            _READ,
            "tool names should be 1 to 128 characters of letters, digits, underscores, dashes and dots",
        ),
    ),
)


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


_DIGEST_CHARS = 8


@dataclass(frozen=True, slots=True)
class NameMap:
    """Names both ways: a tool's own, and the one the provider knows it by.

    Raises:
        NameClashError: Two tools would have the same name on the wire.
    """

    wire: Mapping[str, str]
    """The wire name of each tool."""
    own: Mapping[str, str]
    """The tool of each wire name."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]], *, dialect: str) -> "NameMap":
        """Make the map of `(own, wire)` pairs."""
        wire: dict[str, str] = {}
        own: dict[str, str] = {}
        for name, wire_name in pairs:
            other = own.setdefault(wire_name, name)
            if other != name:
                raise NameClashError(
                    f"the tools {other!r} and {name!r} would both be called {wire_name!r} in {dialect}, which does not "
                    "take every name as it is; rename one of them, or leave one out",
                    tool=name,
                    wire_name=wire_name,
                    tools=(other, name),
                )
            wire[name] = wire_name
        return cls(MappingProxyType(wire), MappingProxyType(own))

    def to_wire(self, name: str) -> str:
        """Give the name the provider knows; a name that is not in the map stays as it is."""
        return self.wire.get(name, name)

    def to_own(self, wire_name: str) -> str:
        """Give the tool's own name; a name that is not in the map stays as it is."""
        return self.own.get(wire_name, wire_name)

    @property
    def mapped(self) -> dict[str, str]:
        """The tools whose name had to be changed, with their name on the wire."""
        return {name: wire_name for name, wire_name in self.wire.items() if name != wire_name}

    def __iter__(self) -> Iterator[str]:
        return iter(self.wire)

    def __len__(self) -> int:
        return len(self.wire)


def wire_name(name: str, limits: Limits) -> str:
    """Give the name itself where the provider takes it, else the nearest one that it takes."""
    return fitted(name, limits.name_pattern, limits.max_name_chars)


def property_name(name: str, limits: Limits) -> str:
    """Give an argument's name itself where the provider takes it, else the nearest one that it takes."""
    if limits.property_pattern is None or limits.max_property_chars is None:
        return name
    return fitted(name, limits.property_pattern, limits.max_property_chars)


def fitted(name: str, pattern: str, max_chars: int) -> str:
    """Give the name itself where it matches `pattern`, else the nearest one that does."""
    if re.fullmatch(pattern, name):
        return name
    legal = "".join(letter if re.fullmatch(pattern, f"a{letter}") else "_" for letter in name)
    if not re.fullmatch(pattern, legal[:1]):
        legal = f"_{legal}"
    if len(legal) > max_chars or not legal.strip("_"):
        # A cut, or a name of which nothing is left, says too little: a digest of the whole tells namesakes apart.
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
        legal = f"{legal[: max_chars - _DIGEST_CHARS - 1].rstrip('_')}_{digest}"
    return legal
