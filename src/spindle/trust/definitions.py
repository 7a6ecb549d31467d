"""Sanitised tool definitions: every text of an upstream's definition is cleaned before a client or a model sees it.

Texts for readers (descriptions, titles, comments, defaults, examples, unknown keywords) are sanitised and shortened.
Texts that belong to the contract (names of tools and properties, `enum`, `const`, `pattern`, references) cannot be
changed without changing what a call means: a definition that hides something in one of them is rejected.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from spindle.errors import InvalidToolError
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.text import INVISIBLE, escape_invisible, extend_pointer, quote_name, shorten
from spindle.trust.sanitise import has_special_token, reveal_invisible, sanitise

MAX_DESCRIPTION_CHARS: Final = 10_000
MAX_TITLE_CHARS: Final = 200
MAX_SCHEMA_TEXT_CHARS: Final = 4_000
"""The limit of one text in a schema."""
MAX_SCHEMA_TEXTS_CHARS: Final = 200_000
"""The limit of all texts in a schema; texts beyond it are omitted."""
_MAX_DEPTH: Final = 200
_MAX_STEP: Final = 60
"""Characters of a name in the path of a message."""

_MAPS: Final = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
"""Keywords with an object of subschemas by name."""
_SCHEMAS: Final = frozenset(
    (
        *("not", "if", "then", "else", "items", "additionalItems", "additionalProperties", "unevaluatedItems"),
        *("unevaluatedProperties", "propertyNames", "contains", "contentSchema", "allOf", "anyOf", "oneOf"),
        *("prefixItems", "dependencies"),
    )
)
"""Keywords with a subschema, a list of subschemas, or (`dependencies`) an object of either or of lists of names."""
_CONTRACT: Final = frozenset(
    (
        *("type", "enum", "const", "pattern", "format", "required", "dependentRequired", "contentEncoding"),
        *("contentMediaType", "$ref", "$dynamicRef", "$recursiveRef", "$id", "id", "$anchor", "$dynamicAnchor"),
        *("$schema", "$vocabulary", "discriminator"),
    )
)
"""Keywords whose texts decide which arguments are valid."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DefinitionTexts:
    """The parts of a tool's definition that a client or a model may see."""

    name: str
    title: str | None = None
    description: str | None = None
    input_schema: Mapping[str, JsonValue]
    output_schema: Mapping[str, JsonValue] | None = None


def sanitise_definition(given: DefinitionTexts) -> DefinitionTexts:
    """Return a definition with all texts sanitised and shortened, and the same contract.

    Raises:
        InvalidToolError: A name or value of the contract contains hidden characters or a chat-template token.
    """
    problem = find_contract_problem(given.name, is_pattern=False)
    if problem is not None:
        raise InvalidToolError(
            f"its name {quote_name(escape_invisible(given.name))} {problem}", tool=given.name, field="name"
        )
    output = given.output_schema
    return replace(
        given,
        title=None if given.title is None else sanitise_text(given.title, MAX_TITLE_CHARS),
        description=None if given.description is None else sanitise_text(given.description, MAX_DESCRIPTION_CHARS),
        input_schema=sanitise_schema(given.input_schema, tool=given.name, field="input_schema"),
        output_schema=None if output is None else sanitise_schema(output, tool=given.name, field="output_schema"),
    )


def sanitise_text(text: str, max_chars: int = MAX_DESCRIPTION_CHARS) -> str:
    """Sanitise a text of a definition: at most `max_chars` characters are returned."""
    # Only the beginning of a very long text is read: sanitising shortens runs of hidden characters, but few texts.
    clean = sanitise(text if len(text) <= 4 * max_chars else text[: 4 * max_chars])
    if len(clean) <= max_chars and len(text) <= 4 * max_chars:
        return clean
    # A joiner at the cut would have lost its neighbour.
    return _trailing().sub("", clean[: max_chars - 1]) + "…"


@cache
def _trailing() -> re.Pattern[str]:
    return re.compile(rf"(?<![{INVISIBLE}])[{INVISIBLE}]++\Z")


def sanitise_schema(schema: Mapping[str, JsonValue], *, tool: str, field: str = "input_schema") -> JsonObject:
    """Return a JSON Schema with all texts sanitised and shortened, and the same contract.

    Raises:
        InvalidToolError: A name or value of the contract contains hidden characters or a chat-template token, or the
            schema is nested too deeply.
    """
    return _SchemaSanitiser(tool, field).clean_schema(dict(schema), "", 0)


def find_contract_problem(text: str, *, is_pattern: bool) -> str | None:
    """Return why a text cannot be part of a contract, or `None`; brackets of a regular expression are not tokens."""
    if reveal_invisible(text) != text:
        return "contains hidden characters"
    if not is_pattern and has_special_token(text):
        return "contains a chat-template token"
    return None


class _SchemaSanitiser:
    """A walk over one schema that counts the characters of its texts."""

    def __init__(self, tool: str, field: str) -> None:
        self._tool = tool
        self._field = field
        self._left = MAX_SCHEMA_TEXTS_CHARS

    def clean_schema(self, node: JsonValue, path: str, depth: int) -> JsonValue:
        """Clean a subschema, or a list of them."""
        if depth > _MAX_DEPTH:
            raise self._reject(f"is nested deeper than {_MAX_DEPTH} levels", path)
        if is_array(node):
            return [self.clean_schema(each, extend_pointer(path, i), depth + 1) for i, each in enumerate(node)]
        if not is_object(node):
            return self._clean_text(node) if isinstance(node, str) else node
        return {
            self._clean_key(key): self._clean_keyword(key, value, extend_pointer(path, key[:_MAX_STEP]), depth + 1)
            for key, value in node.items()
        }

    def _clean_keyword(self, keyword: str, value: JsonValue, path: str, depth: int) -> JsonValue:
        if keyword in _CONTRACT:
            self._check_contract(value, path, depth, is_pattern=keyword == "pattern")
            return value
        if keyword in _MAPS and is_object(value):
            for name in value:
                self._check_contract(name, path, depth, is_pattern=keyword == "patternProperties")
            return {
                name: self.clean_schema(each, extend_pointer(path, name[:_MAX_STEP]), depth + 1)
                for name, each in value.items()
            }
        if keyword == "dependencies" and is_object(value):
            return {name: self._clean_dependency(name, each, path, depth) for name, each in value.items()}
        if keyword in _SCHEMAS:
            return self.clean_schema(value, path, depth)
        return self._clean_data(value, path, depth)

    def _clean_dependency(self, name: str, value: JsonValue, path: str, depth: int) -> JsonValue:
        self._check_contract(name, path, depth, is_pattern=False)
        if not is_array(value):
            return self.clean_schema(value, extend_pointer(path, name[:_MAX_STEP]), depth + 1)
        self._check_contract(value, path, depth, is_pattern=False)
        return value

    def _clean_data(self, value: JsonValue, path: str, depth: int) -> JsonValue:
        """Clean a value that no argument is checked against: every text in it is for readers."""
        if depth > _MAX_DEPTH:
            raise self._reject(f"is nested deeper than {_MAX_DEPTH} levels", path)
        if isinstance(value, str):
            return self._clean_text(value)
        if is_array(value):
            return [self._clean_data(each, path, depth + 1) for each in value]
        if is_object(value):
            return {self._clean_key(key): self._clean_data(each, path, depth + 1) for key, each in value.items()}
        return value

    def _clean_text(self, text: str) -> str:
        clean = sanitise_text(text, MAX_SCHEMA_TEXT_CHARS)
        shown = clean if len(clean) <= self._left else ""
        self._left -= len(shown)
        return shown

    def _clean_key(self, key: str) -> str:
        return key if key.isascii() and key.isidentifier() else sanitise_text(key, MAX_TITLE_CHARS)

    def _check_contract(self, value: JsonValue, path: str, depth: int, *, is_pattern: bool) -> None:
        if depth > _MAX_DEPTH:
            raise self._reject(f"is nested deeper than {_MAX_DEPTH} levels", path)
        if isinstance(value, str):
            problem = find_contract_problem(value, is_pattern=is_pattern)
            if problem is not None:
                raise self._reject(f"has the value {quote_name(escape_invisible(value))}, which {problem},", path)
        elif is_array(value):
            for each in value:
                self._check_contract(each, path, depth + 1, is_pattern=is_pattern)
        elif is_object(value):
            for name, each in value.items():
                self._check_contract(name, path, depth, is_pattern=False)
                self._check_contract(each, path, depth + 1, is_pattern=is_pattern)

    def _reject(self, why: str, path: str) -> InvalidToolError:
        place = quote_name(escape_invisible(shorten(path, 60))) if path else "its root"
        label = self._field.replace("_", " ")
        return InvalidToolError(f"its {label} {why} at {place}", tool=self._tool, field=self._field)
