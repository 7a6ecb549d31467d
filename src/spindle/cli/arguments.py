"""Parse `key=value` words into call arguments by a tool's schema, and describe the schema in words."""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from spindle.cli.output import Branch
from spindle.errors import UsageError
from spindle.json_types import JsonObject, JsonValue, is_array, is_object

_MAX_DEPTH = 8
_BOUNDS = {
    "minimum": "≥ {}",
    "maximum": "≤ {}",
    "exclusiveMinimum": "> {}",
    "exclusiveMaximum": "< {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "pattern": "like {}",
    "format": "{}",
}


def resolve_ref(schema: JsonValue, whole: Mapping[str, JsonValue]) -> JsonObject:
    """Resolve a local `$ref`; keywords beside the reference override those of its target."""
    for _ in range(_MAX_DEPTH):
        if not is_object(schema) or "$ref" not in schema:
            break
        found: JsonValue = whole
        for part in str(schema["$ref"]).removeprefix("#/").split("/"):
            found = found.get(part) if is_object(found) else None
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**(found if is_object(found) else {}), **beside}
    return schema if is_object(schema) else {}


def get_types(schema: JsonValue, whole: Mapping[str, JsonValue], depth: int = 0) -> list[str]:
    """Return the JSON types a value may have, in the order of the schema; empty if any type is allowed."""
    here = resolve_ref(schema, whole)
    if "enum" in here or "const" in here:
        return list(dict.fromkeys(map(_get_json_type, here.get("enum", [here.get("const")]))))
    found = here.get("type")
    if isinstance(found, str):
        return [found]
    if is_array(found):
        return [str(each) for each in found]
    members = [each for word in ("anyOf", "oneOf", "allOf") for each in here.get(word, ())]
    if depth >= _MAX_DEPTH:
        return []
    return list(dict.fromkeys(kind for each in members for kind in get_types(each, whole, depth + 1)))


def parameters(schema: Mapping[str, JsonValue]) -> list[Branch]:
    """Describe the parameters of a tool as a tree."""
    return list(_properties(dict(schema), schema, 0))


def _properties(schema: Mapping[str, JsonValue], whole: Mapping[str, JsonValue], depth: int) -> Iterator[Branch]:
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    for name, given in properties.items() if is_object(properties) else ():
        here = resolve_ref(given, whole)
        parts = [name, f"({describe_schema(here, whole)})"]
        if name in required:
            parts.append("required")
        elif "default" in here:
            parts.append(f"= {json.dumps(here['default'], ensure_ascii=False)}")
        if here.get("description"):
            parts.append(f"· {here['description']}")
        below = [] if depth >= _MAX_DEPTH else list(_properties(_inner(here, whole), whole, depth + 1))
        yield " ".join(parts), below


def _inner(schema: Mapping[str, JsonValue], whole: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Return the object schema of a parameter or of its list items; empty if there is none."""
    if "properties" in schema:
        return schema
    for candidate in (schema.get("items"), *schema.get("anyOf", ()), *schema.get("oneOf", ())):
        inner = resolve_ref(candidate, whole)
        inner = resolve_ref(inner.get("items"), whole) if inner.get("type") == "array" else inner
        if "properties" in inner:
            return inner
    return {}


def describe_schema(schema: JsonValue, whole: Mapping[str, JsonValue], depth: int = 0) -> str:
    """Describe the allowed values of a schema in a few words."""
    here = resolve_ref(schema, whole)
    if depth > _MAX_DEPTH:
        return "…"
    if "enum" in here:
        return "one of " + ", ".join(json.dumps(each, ensure_ascii=False) for each in here["enum"])
    if "const" in here:
        return json.dumps(here["const"], ensure_ascii=False)
    members: Sequence[JsonValue] = here.get("anyOf") or here.get("oneOf") or ()
    if members:
        return " or ".join(dict.fromkeys(describe_schema(each, whole, depth + 1) for each in members))
    kinds = get_types(here, whole)
    words = " or ".join(kinds) or "anything"
    if kinds == ["array"] and here.get("items"):
        words = f"list of {describe_schema(here['items'], whole, depth + 1)}"
    bounds = [text.format(here[key]) for key, text in _BOUNDS.items() if key in here]
    return f"{words}, {', '.join(bounds)}" if bounds else words


def _get_json_type(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case None:
            return "null"
        case list():
            return "array"
        case _:
            return "object"


_PAIR = re.compile(r"([^=:]+?)(:=|=)(.*)", re.DOTALL)
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def parse_arguments(pairs: Sequence[str], given: str | None, schema: Mapping[str, JsonValue]) -> JsonObject:
    """Merge the arguments of `--json` and of each `key=value`, which takes precedence.

    Raises:
        UsageError: A pair or the JSON is invalid, or a file cannot be read.
    """
    found = {} if given is None else _object(_content(given, "--json"))
    several: dict[str, list[str]] = {}
    for pair in pairs:
        parsed = _PAIR.fullmatch(pair)
        if parsed is None:
            raise UsageError(f"invalid argument {pair!r}; write key=value, key:=JSON or key=@file", field=pair)
        key, sign, text = parsed[1], parsed[2], parsed[3]
        if sign == ":=":
            found[key] = _json(_content(text, key), key)
        else:
            several.setdefault(key, []).append(_text(text, key))
    properties = resolve_ref(schema, schema).get("properties", {})
    for key, texts in several.items():
        found[key] = _value(key, texts, properties.get(key, {}), schema)
    return found


def _value(key: str, texts: list[str], schema: JsonValue, whole: Mapping[str, JsonValue]) -> JsonValue:
    kinds = get_types(schema, whole)
    if "array" in kinds and (len(texts) > 1 or "string" not in kinds):
        if len(texts) == 1 and texts[0].lstrip().startswith("["):
            return _json(texts[0], key)
        return [parse_scalar(key, text, resolve_ref(schema, whole).get("items", {}), whole) for text in texts]
    if len(texts) > 1:
        raise UsageError(f"{key} is given {len(texts)} times but is not a list", field=key)
    return parse_scalar(key, texts[0], schema, whole)


def parse_scalar(key: str, text: str, schema: JsonValue, whole: Mapping[str, JsonValue]) -> JsonValue:
    """Convert the text to the first matching type of the schema; if a string is allowed, return it unchanged."""
    kinds = get_types(schema, whole)
    if not kinds or "string" in kinds:
        return text
    if "boolean" in kinds and text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    if "null" in kinds and text in {"", "null"}:
        return None
    if ("integer" in kinds or "number" in kinds) and re.fullmatch(r"[+-]?\d{1,4000}", text):
        return int(text)
    if "number" in kinds and re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
        return float(text)
    if "object" in kinds or "array" in kinds:
        return _json(text, key)
    return text  # no type matches; validation by the tool's schema reports it better


def _text(text: str, key: str) -> str:
    if text.startswith("@@"):
        return text[1:]
    return _content(text, key)


def _content(text: str, key: str) -> str:
    """Return the text, the content of the file for `@file`, or stdin for `@-` (and `-` with `--json`)."""
    if text == "@-" or (text == "-" and key == "--json"):
        return sys.stdin.read()
    if not text.startswith("@"):
        return text
    path = Path(text[1:]).expanduser()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageError(
            f"{key}: cannot read {path}: {why}; write @@ for a text that starts with @", field=key
        ) from error


def _json(text: str, key: str) -> JsonValue:
    try:
        return json.loads(text, object_pairs_hook=_reject_duplicates)
    except (ValueError, RecursionError) as error:
        hint = "" if key == "--json" else "; write key=value for plain text"
        raise UsageError(
            f"{key}: {text!r:.60} is not valid JSON ({_describe_json_error(error)}){hint}", field=key
        ) from error


def _reject_duplicates(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    """Build an object, rejecting duplicate keys, since the intended value is ambiguous."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name in found if sum(name == each for each, _ in pairs) > 1)
        raise UsageError(f"duplicate key {twice!r:.60} in the JSON; give each key once", field=twice)
    return found


def _describe_json_error(error: ValueError | RecursionError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, line {error.lineno}, column {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"


def _object(text: str) -> JsonObject:
    value = _json(text, "--json")
    if not is_object(value):
        raise UsageError('--json expects one JSON object, such as \'{"path": "notes.txt"}\'', field="--json")
    return value
