"""Checks of one definition's schema and description: secrets in parameters, and quality."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.mcp.lint.findings import Finding, quote, show_name
from spindle.mcp.lint.rules import report
from spindle.mcp.lint.subjects import Subject
from spindle.text import extend_pointer, to_line

MAX_DESCRIPTION_CHARS: Final = 3_000
MAX_TOOLS: Final = 60
"""Tools of one registry beyond which models choose clearly worse."""
_MIN_DESCRIPTION_CHARS: Final = 15
_MAX_PARAMETERS: Final = 2_000
_MAX_DEPTH: Final = 30
_MAX_NAMED: Final = 5

_CREDENTIAL: Final = re.compile(
    r"(?i)(?:^|[_\W])(?:api[_ -]?key|access[_ -]?key|secret[_ -]?key|private[_ -]?key"
    r"|(?:access|auth|bearer|api|session|refresh)[_ -]?token"
    r"|token|client[_ -]?secret|secret|passw(?:or)?d|passphrase|credentials?|authorization"
    r"|cookies?|ssh[_ -]?key|seed[_ -]?phrase|otp|pin[_ -]?code)(?:$|[_\W])"
)
_NOT_CREDENTIAL: Final = re.compile(
    r"(?i)page|next|cursor|continu|max|count|limit|sync|num|tokens|name|type|scan|usage|_id$"
    r"|csrf|contract|address|symbol|ticker|env"
)
_CONVERSATION: Final = re.compile(
    r"(?i)^(?:.*[_-])?(?:conversation(?:[_-]?(?:history|context|log))?|chat[_-]?(?:history"
    r"|log|transcript|messages)|message[_-]?history|system[_-]?prompt"
    r"|previous[_-]?messages|full[_-]?context|user[_-]?(?:prompt|messages)"
    r"|chain[_-]?of[_-]?thought|model[_-]?(?:instructions|thoughts)|available[_-]?tools"
    r"|tool[_-]?list|transcript)$"
)
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_VAGUE: Final = re.compile(
    r"(?i)^(?:a|an|the|this|my|it|is|tool|function|method|utility|helper|for|to|that|which"
    r"|does|do|things?|stuff|something"
    r"|useful|various|general|generic|misc(?:ellaneous)?|todo|tbd|fixme|test(?:ing)?"
    r"|description|placeholder|n/?a|none|endpoint|api|call|handles?|data|[\W_\d])*$"
)
_INNER: Final = ("items", "additionalProperties")
_TYPED: Final = frozenset(
    ("type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "not", "properties", "items", "$dynamicRef", "if")
)


class _Parameter(NamedTuple):
    """One property of an input schema."""

    name: str
    schema: JsonValue
    place: str


def check_schema(subject: Subject) -> Iterator[Finding]:
    """Yield the findings about parameters and about quality."""
    parameters = list(_find_parameters(subject.input_schema))
    yield from _check_secrets(subject, parameters)
    if subject.kind in {"tool", "prompt"}:
        yield from _check_description(subject)
    if subject.kind == "tool":
        yield from _check_parameters(subject, parameters)


def _find_parameters(schema: JsonObject) -> Iterator[_Parameter]:
    waiting: list[tuple[JsonValue, str, int]] = [(schema, "/inputSchema", 0)]
    count = 0
    while waiting and count < _MAX_PARAMETERS:
        node, place, depth = waiting.pop()
        if not is_object(node) or depth > _MAX_DEPTH:
            continue
        properties = node.get("properties")
        if is_object(properties):
            for name, inner in properties.items():
                count += 1
                at = extend_pointer(place, "properties", name[:60])
                yield _Parameter(name, inner, at)
                waiting.append((inner, at, depth + 1))
        waiting += [(node.get(keyword), f"{place}/{keyword}", depth + 1) for keyword in _INNER]
        for keyword in ("anyOf", "oneOf", "allOf"):
            each = node.get(keyword)
            waiting.extend(
                (inner, f"{place}/{keyword}/{i}", depth + 1) for i, inner in enumerate(each if is_array(each) else ())
            )
        for keyword in ("$defs", "definitions"):
            named = node.get(keyword)
            if depth == 0 and is_object(named):
                waiting.extend((inner, extend_pointer(place, keyword, key[:60]), 1) for key, inner in named.items())


def _check_secrets(subject: Subject, parameters: Sequence[_Parameter]) -> Iterator[Finding]:
    for name, schema, place in parameters:
        words = _CAMEL.sub("_", name[:100])
        if _CREDENTIAL.search(words) and not _NOT_CREDENTIAL.search(words) and _takes_text(schema):
            yield report(
                "SP201", subject, f"the parameter {show_name(name)} takes a credential", place=place, quote=quote(name)
            )
        elif _CONVERSATION.match(words):
            message = f"the parameter {show_name(name)} asks for the conversation or for instructions of the model"
            yield report("SP202", subject, message, place=place, quote=quote(name))


def _takes_text(schema: JsonValue) -> bool:
    kind = schema.get("type") if is_object(schema) else None
    return kind is None or kind == "string" or (is_array(kind) and "string" in kind)


def _check_description(subject: Subject) -> Iterator[Finding]:
    text = to_line(subject.description[: MAX_DESCRIPTION_CHARS * 4])
    if not text:
        yield report("SP301", subject, f"the {subject.kind} has no description", place="/description")
        return
    words = re.sub(r"[\W_]+", " ", subject.name).casefold()
    rest = re.sub(r"[\W_]+", " ", text).casefold()
    is_short = len(text) < _MIN_DESCRIPTION_CHARS and text.isascii()
    if is_short or rest.strip() == words.strip() or (len(text) < 200 and _VAGUE.match(text)):
        yield report("SP302", subject, "the description says little", place="/description", quote=quote(text))
    if len(subject.description) > MAX_DESCRIPTION_CHARS:
        message = f"the description has {len(subject.description):,} characters"
        yield report("SP308", subject, message, place="/description", quote=quote(text[:80]))


def _check_parameters(subject: Subject, parameters: Sequence[_Parameter]) -> Iterator[Finding]:
    top = [each for each in parameters if each.place.count("/") == 3]
    undescribed = [each.name for each in top if not _has_text(each.schema)]
    if undescribed:
        yield report("SP304", subject, f"no description: {_list(undescribed)}", place="/inputSchema/properties")
    untyped = [
        each
        for each in parameters
        if each.schema is True or (is_object(each.schema) and not each.schema.keys() & _TYPED)
    ]
    if untyped:
        names = _list([each.name for each in untyped])
        yield report("SP305", subject, f"no type: {names}", place=untyped[0].place)
    opened = [each for each in parameters if _is_open(each.schema)]
    if opened:
        yield report("SP306", subject, f"any object: {_list([each.name for each in opened])}", place=opened[0].place)
    required, known = subject.input_schema.get("required"), subject.input_schema.get("properties", {})
    missing = (
        [each for each in required if isinstance(each, str) and each not in known]
        if is_array(required) and is_object(known)
        else []
    )
    if missing and not subject.input_schema.keys() & {"patternProperties", "allOf", "anyOf", "oneOf", "$ref"}:
        yield report("SP309", subject, f"not declared: {_list(missing)}", place="/inputSchema/required")


def _has_text(schema: JsonValue) -> bool:
    return is_object(schema) and (
        bool(schema.get("description")) or bool(schema.get("title")) or "$ref" in schema or "const" in schema
    )


def _is_open(schema: JsonValue) -> bool:
    if not is_object(schema) or schema.get("type") != "object":
        return False
    extra = schema.get("additionalProperties", True)
    is_free = extra is True or extra == {}
    return is_free and not schema.keys() & {
        "properties",
        "patternProperties",
        "$ref",
        "anyOf",
        "oneOf",
        "allOf",
        "enum",
    }


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(show_name(name) for name in names[:_MAX_NAMED])
    return f"{shown} and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else shown


def check_registry(subjects: Sequence[Subject]) -> Iterator[Finding]:
    """Yield the findings about all definitions together: duplicates, and too many tools."""
    seen: dict[str, Subject] = {}
    for each in subjects:
        text = to_line(each.description[:MAX_DESCRIPTION_CHARS]).casefold()
        if not text or each.kind != "tool":
            continue
        first = seen.setdefault(text, each)
        if first is not each and (first.server, first.name) != (each.server, each.name):
            message = f"has the description of {show_name(first.name)}" + (
                "" if first.server == each.server else f" of server {first.server!r}"
            )
            yield report("SP303", each, message, place="/description", quote=quote(each.description[:80]))
    counts: dict[str | None, int] = defaultdict(int)
    for each in subjects:
        counts[each.server] += each.kind == "tool" and each.tool is not None
    total = sum(counts.values())
    if total > MAX_TOOLS:
        most = sorted(counts.items(), key=lambda item: -item[1])[:3]
        by = ", ".join(f"{count} of {server or 'this machine'}" for server, count in most)
        yield report("SP307", None, f"{total} tools are offered ({by})")
