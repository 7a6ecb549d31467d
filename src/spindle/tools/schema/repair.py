"""Repair of schemas that use type names of other languages: `dict`, `float`, `tuple`, `any`, `String`, `ArrayList`."""

import re
from collections.abc import Mapping

from spindle.json_types import JsonObject, JsonValue
from spindle.text import quote_name, to_printable
from spindle.tools.schema.graph import append_pointer, as_list, as_object, copy_schema

_VALID = frozenset(("object", "array", "string", "integer", "number", "boolean", "null"))
_ANYTHING = frozenset(("any", "mixed", "unknown", "object?", "generic", "variant", "*"))
_SYNONYMS = {
    "object": "dict dictionary map mapping hashmap hash hashtable treemap linkedhashmap struct record json obj "
    "typeddict namedtuple class model document",
    "array": "list tuple set frozenset sequence iterable arraylist linkedlist vector queue stack deque arr",
    "string": "str text char character varchar symbol bytes date datetime time timestamp uuid guid url uri email path "
    "file enum regex",
    "integer": "int long short byte bigint biginteger int8 int16 int32 int64 uint uint8 uint16 uint32 uint64",
    "number": "float double decimal real numeric num float32 float64 bigdecimal",
    "boolean": "bool bit flag",
    "null": "none nil void undefined nonetype",
}
_MEANT = {word: meant for meant, words in _SYNONYMS.items() for word in words.split()}
_GENERIC = re.compile(r"\s*([A-Za-z_][\w.]*)\s*[\[<](.*)[\]>]\s*$", re.DOTALL)
_MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
_ONE = ("items", "additionalProperties", "additionalItems", "contains", "not", "if", "then", "else", "propertyNames")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_NEVER_NULL = (*_MANY, *_ONE, *_NAMED, "type", "required", "enum", "description", "title", "format", "pattern")


def parse_type_name(word: str) -> str | None:
    """Return the JSON Schema type that an invalid type name means; `None` for any value or an unknown name."""
    plain = word.strip().casefold()
    generic = _GENERIC.match(plain)
    plain = generic[1].rpartition(".")[2] if generic else plain.removesuffix("?")
    return plain if plain in _VALID else _MEANT.get(plain)


def is_type(word: object) -> bool:
    """Return whether JSON Schema has this type."""
    return isinstance(word, str) and word in _VALID


def suggest_type(word: object) -> str:
    """Return what to write instead of an invalid type name."""
    meant = parse_type_name(word) if isinstance(word, str) else None
    if meant is not None:
        return f"write {quote_name(meant)}"
    if isinstance(word, str) and word.strip().casefold() in _ANYTHING:
        return "leave type out, which allows any value"
    return f"write one of {', '.join(sorted(_VALID))}, or leave type out to allow any value"


def repair_schema(schema: Mapping[str, JsonValue]) -> tuple[JsonObject, list[str]]:
    """Replace common invalid type names and shorthand by valid JSON Schema; return the new schema and the changes.

    Raises:
        InvalidToolError: The schema is not JSON, or is too large.
    """
    repaired = copy_schema(schema)
    changes: list[str] = []
    waiting: list[tuple[JsonObject, str]] = [(repaired, "#")]
    while waiting:
        node, at = waiting.pop()
        _Repair(node, at, changes).apply()
        waiting.extend(_inner(node, at))
    return repaired, sorted(changes)


def _inner(node: JsonObject, at: str) -> list[tuple[JsonObject, str]]:
    """Return the subschemas of a node that may itself be malformed."""
    places: list[tuple[JsonValue, str]] = [(node.get(keyword), append_pointer(at, keyword)) for keyword in _ONE]
    for keyword in _MANY:
        under = append_pointer(at, keyword)
        places += [(each, append_pointer(under, index)) for index, each in enumerate(as_list(node.get(keyword)))]
    for keyword in _NAMED:
        under = append_pointer(at, keyword)
        places += [(each, append_pointer(under, name)) for name, each in (as_object(node.get(keyword)) or {}).items()]
    return [(inner, place) for value, place in places if (inner := as_object(value)) is not None]


class _Repair:
    """Repairs one subschema in place; its inner subschemas are repaired separately."""

    def __init__(self, node: JsonObject, at: str, changes: list[str]) -> None:
        self._node = node
        self._at = at
        self._changes = changes

    def apply(self) -> None:
        """Apply every repair that matches."""
        for keyword in [key for key in _NEVER_NULL if key in self._node and self._node[key] is None]:
            del self._node[keyword]
            self._note(f"removed {keyword}, which was null")
        self._repair_type()
        self._repair_shorthand()
        self._repair_required()
        self._repair_items()
        self._repair_bounds()

    def _note(self, change: str) -> None:
        self._changes.append(f"{self._at}: {change}")

    def _repair_type(self) -> None:
        words: JsonValue = self._node.get("type")
        if words is None or is_type(words):
            return
        listed = as_list(words) or [words]
        meant = [parse_type_name(word) if isinstance(word, str) else None for word in listed]
        known = list(dict.fromkeys(word for word in meant if word is not None))
        if known == listed:
            return
        if None in meant or not known:
            del self._node["type"]
            self._note(f"removed type {_format(words)}; any value is allowed now")
            return
        self._node["type"] = known if len(known) > 1 else known[0]
        self._note(f"type {_format(words)} became {_format(self._node['type'])}")
        self._repair_generic(words)

    def _repair_generic(self, word: object) -> None:
        """Add the item or value type of a generic name such as `list[str]`."""
        generic = _GENERIC.match(word) if isinstance(word, str) else None
        inner = parse_type_name(generic[2].rpartition(",")[2]) if generic else None
        keyword = {"array": "items", "object": "additionalProperties"}.get(str(self._node["type"]))
        if inner is not None and keyword is not None and keyword not in self._node and "properties" not in self._node:
            self._node[keyword] = {"type": inner}
            self._note(f"added {keyword} of type {quote_name(inner)}")

    def _repair_shorthand(self) -> None:
        """Replace a bare type name by a subschema of that type."""
        for name, each in (as_object(self._node.get("properties")) or {}).items():
            if isinstance(each, str):
                meant = parse_type_name(each)
                self._node["properties"][name] = {} if meant is None else {"type": meant}
                self._note(f"property {quote_name(name)} became a subschema")
        items = self._node.get("items")
        if isinstance(items, str):
            meant = parse_type_name(items)
            self._node["items"] = {} if meant is None else {"type": meant}
            self._note("items became a subschema")

    def _repair_required(self) -> None:
        """Move `required: true` of properties into the `required` list of their owner."""
        properties = as_object(self._node.get("properties")) or {}
        flags = {name: each.pop("required") for name, each in properties.items() if _has_flag(each)}
        before = self._node.get("required")
        names = [before] if isinstance(before, str) else [name for name in as_list(before) if isinstance(name, str)]
        after = list(dict.fromkeys([*names, *(name for name, flag in flags.items() if flag is True)]))
        if after != before and (flags or isinstance(before, (str, list))):
            self._node["required"] = after
            self._note("required became a list of distinct property names")
        elif flags:
            self._note("removed required: false from its properties, which is the default")

    def _repair_items(self) -> None:
        if isinstance(self._node.get("items"), list) and "$schema" not in self._node:
            rest = self._node.pop("additionalItems", None)
            self._node["prefixItems"] = self._node.pop("items")
            if rest is not None:
                self._node["items"] = rest
            self._note("the list of items became prefixItems")

    def _repair_bounds(self) -> None:
        for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            flag = self._node.get(exclusive)
            if isinstance(flag, bool):
                del self._node[exclusive]
                if flag and bound in self._node:
                    self._node[exclusive] = self._node.pop(bound)
                self._note(f"{exclusive}: {str(flag).lower()} was replaced by a number or removed")


def _has_flag(value: object) -> bool:
    node = as_object(value)
    return node is not None and isinstance(node.get("required"), bool)


def _format(words: object) -> str:
    return quote_name(words) if isinstance(words, str) else to_printable(str(words), 100)
