"""The definitions that are linted: raw JSON of tools, prompts and templates, and the texts in them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.mcp.lint.findings import Kind
from spindle.text import extend_pointer
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry

Role: TypeAlias = Literal["text", "name", "value"]
"""A text for readers, a name (of a property, a definition), or a value of the contract."""

MAX_TEXT_CHARS: Final = 20_000
"""What is read of one text: longer ones are shortened before they are shown anyway."""
MAX_ALL_CHARS: Final = 400_000
MAX_PARTS: Final = 10_000
_MAX_STEP: Final = 60
_MAX_PLACE: Final = 1_000

_VALUES: Final = frozenset(("enum", "const", "pattern", "format", "required", "$ref", "type"))
_SKIPPED: Final = frozenset(("icons",))
_KEYWORDS: Final = frozenset(
    (
        *("name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta", "uriTemplate"),
        *("arguments", "properties", "patternProperties", "$defs", "definitions", "items", "type", "enum", "const"),
        *("required", "default", "examples", "anyOf", "oneOf", "allOf", "not", "format", "pattern", "minimum"),
        *("maximum", "additionalProperties", "$ref", "$schema", "minLength", "maxLength", "minItems", "maxItems"),
    )
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedText:
    """One text of a definition."""

    place: str
    text: str
    role: Role


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """One definition to lint."""

    raw: JsonObject
    """As its server listed it, or as Spindle would list it."""
    kind: Kind = "tool"
    server: str | None = None
    tool: Tool | None = None
    """The registered tool, for its price and the limits of providers; `None` if it is not offered."""

    @property
    def name(self) -> str:
        """The name that its server uses."""
        name = self.raw.get("name") or self.raw.get("uriTemplate") or self.raw.get("uri")
        return name if isinstance(name, str) else ""

    @property
    def description(self) -> str:
        """The description, empty if there is none."""
        text = self.raw.get("description")
        return text if isinstance(text, str) else ""

    @property
    def input_schema(self) -> JsonObject:
        """The input schema, empty if there is none."""
        schema = self.raw.get("inputSchema")
        return schema if is_object(schema) else {}

    def find_texts(self) -> "ListedTexts":
        """Return the texts of the definition in order: bounded in number and length."""
        found: list[ListedText] = []
        left = MAX_ALL_CHARS
        for part in _walk(self.raw):
            if part is None or left <= 0 or len(found) >= MAX_PARTS:
                return ListedTexts(found, is_complete=False)
            found.append(part)
            left -= len(part.text)
        return ListedTexts(found, is_complete=True)


class ListedTexts(NamedTuple):
    """The texts of a definition."""

    parts: list[ListedText]
    is_complete: bool
    """Whether these are all texts: a definition without end is read to a limit."""


def _walk(raw: JsonObject) -> Iterator[ListedText | None]:
    """Yield texts without recursion: a hostile definition may be nested without end; `None` if it is too large."""
    waiting: list[tuple[JsonValue, str, Role]] = [(raw, "", "text")]
    visited = 0
    while waiting:
        value, place, role = waiting.pop()
        visited += 1
        if visited > 10 * MAX_PARTS:
            yield None
        if isinstance(value, str):
            if value:
                yield ListedText(place=place, text=value[:MAX_TEXT_CHARS], role=role)
        elif is_array(value):
            short = place[:_MAX_PLACE]
            waiting.extend((value[i], f"{short}/{i}", role) for i in range(len(value) - 1, -1, -1))
        elif is_object(value):
            inner: list[tuple[JsonValue, str, Role]] = []
            for key, each in value.items():
                if not _is_skipped(key, each):
                    at = extend_pointer(place[:_MAX_PLACE], key[:_MAX_STEP])
                    if key not in _KEYWORDS:
                        inner.append((key, at, "name"))
                    inner.append((each, at, _find_role(key, each, role, is_root=not place)))
            waiting.extend(reversed(inner))


def _is_skipped(key: str, value: JsonValue) -> bool:
    return key in _SKIPPED and not is_object(value)  # an object under such a key is a property of that name


def _find_role(key: str, value: JsonValue, role: Role, *, is_root: bool) -> Role:
    if is_root and key == "name":
        return "name"
    return "value" if key in _VALUES and not is_object(value) else "text" if is_object(value) else role


class ListedFeature(Protocol):
    """A prompt, resource, template or app as a server listed it."""

    @property
    def kind(self) -> Literal["prompt", "resource", "template", "app"]:
        """What it is."""
        ...

    @property
    def listed(self) -> JsonObject:
        """Its definition, not sanitised."""
        ...


def build_feature_subjects(server: str, features: Iterable[ListedFeature]) -> list[Subject]:
    """Return the prompts, resources, templates and apps of a server as definitions to lint, beside its tools."""
    return [Subject(raw=each.listed, kind=each.kind, server=server) for each in features]


def build_subjects(registry: ToolRegistry, listings: Mapping[str, Iterable[JsonObject]] | None = None) -> list[Subject]:
    """Return the definitions of a registry, those of upstream servers as `listings` has them (not sanitised).

    Definitions of `listings` that are not registered are included: they were left out, and may say why.
    """
    raws = {
        (server, name): raw
        for server, listed in (listings or {}).items()
        for raw in listed
        if isinstance(name := raw.get("name"), str)
    }
    found: list[Subject] = []
    for entry in registry.entries():
        raw = raws.pop((entry.mcp_server or "", entry.mcp_tool or ""), None)
        if raw is None and entry.definition.find_error() is not None:
            raw = {"name": entry.mcp_tool or entry.tool.name, "description": entry.tool.description}
        found.append(
            Subject(raw=raw or _describe(entry.tool, entry.mcp_tool), server=entry.mcp_server, tool=entry.tool)
        )
    return found + [Subject(raw=raw, server=server) for (server, _), raw in raws.items()]


def _describe(tool: Tool, own_name: str | None) -> JsonObject:
    parts = tool.describe()
    return {
        "name": own_name or parts["name"],
        "description": parts["description"],
        "inputSchema": parts["input_schema"],
    }
