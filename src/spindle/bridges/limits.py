"""What each provider takes at most, as data: every number with where and when it was read."""

from dataclasses import dataclass
from datetime import date
from typing import Literal

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
    max_optional_properties: int | None = None
    """Those of them that are not required; in strict mode."""
    max_unions: int | None = None
    """Properties of more than one type; in strict mode."""
    max_enum_values: int | None = None
    """Values of all enums of one tool together; in strict mode."""
    max_enum_chars: int | None = None
    """Characters of one enum that has more than `long_enum_values` values; in strict mode."""
    long_enum_values: int | None = None
    max_schema_chars: int | None = None
    """Characters of all property names, definition names, enum and const values together; in strict mode."""
    id_pattern: str | None = None
    """What the id of a call must match when the conversation is sent back."""
    max_id_chars: int | None = None
    max_media_bytes: int | None = None
    """Of one image or document."""
    sources: tuple[Source, ...]


_OPENAI_STRICT = Source(
    "https://platform.openai.com/docs/guides/structured-outputs#supported-schemas",
    _READ,
    "strict schemas: 5,000 properties in all, 10 levels, 1,000 enum values, 120,000 characters of names and values, "
    "15,000 characters in an enum of more than 250 values",
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
    sources=(
        Source(
            "https://platform.openai.com/docs/api-reference/chat/create",
            _READ,
            "function names: a-z, A-Z, 0-9, underscores and dashes, at most 64; at most 128 functions",
        ),
        _OPENAI_STRICT,
    ),
)

OPENAI_RESPONSES = Limits(
    name_pattern=r"[a-zA-Z0-9_-]{1,64}",
    max_name_chars=64,
    max_tools=128,
    max_schema_depth=10,
    max_properties=5_000,
    max_enum_values=1_000,
    max_enum_chars=15_000,
    long_enum_values=250,
    max_schema_chars=120_000,
    sources=(
        Source(
            "https://platform.openai.com/docs/api-reference/responses/create",
            _READ,
            "function tools as in Chat Completions: names of at most 64 characters, at most 128 of them",
        ),
        _OPENAI_STRICT,
    ),
)

ANTHROPIC = Limits(
    name_pattern=r"[a-zA-Z0-9_-]{1,64}",
    max_name_chars=64,
    property_pattern=r"[a-zA-Z0-9_.-]{1,64}",
    max_property_chars=64,
    sources=(
        Source(
            "https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools",
            _READ,
            "a tool's name matches ^[a-zA-Z0-9_-]{1,64}$",
        ),
    ),
)

GEMINI = Limits(
    name_pattern=r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}",
    max_name_chars=128,
    property_pattern=r"[a-zA-Z_][a-zA-Z0-9_]{0,63}",
    max_property_chars=64,
    sources=(
        Source(
            "https://ai.google.dev/api/caching#FunctionDeclaration",
            _READ,
            "names start with a letter or an underscore; letters, digits, underscores, dots, colons, dashes",
        ),
    ),
)

BEDROCK = Limits(
    name_pattern=r"[a-zA-Z0-9_-]{1,64}",
    max_name_chars=64,
    id_pattern=r"[a-zA-Z0-9_.:-]{1,64}",
    max_id_chars=64,
    max_media_bytes=3_750_000,
    sources=(
        Source(
            "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolSpecification.html",
            _READ,
            "a tool's name is 1 to 64 characters of [a-zA-Z0-9_-]+",
        ),
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
    ),
)

MCP = Limits(
    name_pattern=r"[A-Za-z0-9_.-]{1,128}",
    max_name_chars=128,
    sources=(
        Source(
            "https://modelcontextprotocol.io/specification/2025-11-25/server/tools",
            _READ,
            "tool names should be 1 to 128 characters of letters, digits, underscores, dashes and dots",
        ),
    ),
)
