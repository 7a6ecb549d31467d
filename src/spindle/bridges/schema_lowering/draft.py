"""One subschema while it is lowered: its flattened parts, its output so far, and the constraints put into words."""

import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from spindle.bridges.provider_limits import Rules
from spindle.bridges.schema_lowering.restore import Branch, Shape, SourceValidator
from spindle.bridges.schema_lowering.source import (
    ANNOTATIONS,
    DEFINITION_KEYWORDS,
    REFERENCES,
    Part,
    Place,
    References,
    SourceSchema,
    get_constraints,
    has_siblings,
    to_list,
)
from spindle.bridges.schema_lowering.tally import LossTracker, is_same_json
from spindle.errors import CannotLowerError
from spindle.json_types import JsonObject, JsonValue
from spindle.tools.schema.graph import as_list, as_object

if TYPE_CHECKING:
    from jsonschema_rs import Validator


_MAX_CHARS = 300
_BARE = {"type", "required"}


def describe_constraint(keyword: str, value: JsonValue) -> str | None:
    """Return a description of a constraint; `None` if there is none, or it is too long."""
    say = _DESCRIPTIONS.get(keyword)
    description = say(value) if say is not None else None
    return description if description is not None and len(description) <= _MAX_CHARS else None


def append_words(description: JsonValue, words: list[str]) -> str:
    """Append words to a description, in parentheses."""
    appended = f"({'; '.join(dict.fromkeys(words))})"
    return f"{description} {appended}" if isinstance(description, str) and description else appended


def needed_names(branches: list[JsonValue]) -> list[list[str]] | None:
    """Return the names each alternative requires; `None` if the alternatives do anything else."""
    listed: list[list[str]] = []
    for branch in branches:
        schema = as_object(branch)
        if schema is None or not schema.keys() <= _BARE or schema.get("type", "object") != "object":
            return None
        listed.append([str(name) for name in as_list(schema.get("required"))])
    return listed if all(listed) else None


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def _count(lower: str, unit: str) -> Callable[[JsonValue], str]:
    return lambda number: f"{lower} {number} {unit}{'' if number == 1 else 's'}"


def _one_of(values: JsonValue) -> str:
    return f"one of {', '.join(map(_json, as_list(values)))}"


def _depends(value: JsonValue) -> str | None:
    listed = as_object(value) or {}
    sentences = [f"{name} needs {', '.join(map(str, as_list(names)))}" for name, names in listed.items()]
    return "; ".join(sentences) or None


def _values(value: JsonValue) -> str | None:
    schema = as_object(value) or {}
    types = schema.get("type")
    if schema.keys() <= {"type", *ANNOTATIONS} or "$ref" in _json(schema):
        return f"every value is of type {types}" if isinstance(types, str) else None
    return f"every value matches the schema {_json(schema)}"


def _schema(lead: str) -> Callable[[JsonValue], str]:
    return lambda value: f"{lead} {_json(value)}"


def _choice(lead: str) -> Callable[[JsonValue], str | None]:
    def say(branches: JsonValue) -> str | None:
        needed = needed_names(as_list(branches))
        return None if needed is None else f"{lead} {', or '.join(' and '.join(names) for names in needed)}"

    return say


def _patterns(value: JsonValue) -> str | None:
    schemas = as_object(value) or {}
    if "$ref" in _json(schemas):
        return f"its keys may match {', '.join(schemas)}"
    return "; ".join(f"the value of a key that matches {each} matches {_json(schemas[each])}" for each in schemas)


_DESCRIPTIONS: Mapping[str, Callable[[JsonValue], str | None]] = {
    "pattern": lambda value: f"must match {value}",
    "format": lambda value: f"format {value}",
    "minLength": _count("at least", "character"),
    "maxLength": _count("at most", "character"),
    "minItems": _count("at least", "item"),
    "maxItems": _count("at most", "item"),
    "minProperties": _count("at least", "key"),
    "maxProperties": _count("at most", "key"),
    "minimum": lambda value: f"at least {value}",
    "maximum": lambda value: f"at most {value}",
    "exclusiveMinimum": lambda value: f"greater than {value}",
    "exclusiveMaximum": lambda value: f"less than {value}",
    "multipleOf": lambda value: f"a multiple of {value}",
    "uniqueItems": lambda value: "no item twice" if value is True else None,
    "default": lambda value: f"default {_json(value)}",
    "const": lambda value: f"always {_json(value)}",
    "enum": _one_of,
    "not": _schema("must not match the schema"),
    "contains": _schema("has an item that matches the schema"),
    "propertyNames": _schema("every key matches the schema"),
    "patternProperties": _patterns,
    "dependentRequired": _depends,
    "additionalProperties": _values,
    "anyOf": _choice("needs"),
    "oneOf": _choice("needs exactly one of"),
}


@dataclass(frozen=True, slots=True)
class Node:
    """A lowered subschema."""

    schema: JsonValue
    """A dict, or a boolean if the dialect accepts booleans."""
    shape: Shape | None = None
    parts: tuple[Part, ...] = ()
    """The parts it was lowered from."""


Subschemas: TypeAlias = list[Place | Part]
"""Subschemas that must all accept the same value."""


@dataclass(slots=True)
class LoweringState:
    """The state shared by all subschemas of one schema while it is lowered."""

    source: SourceSchema
    rules: Rules
    refs: References
    losses: LossTracker
    descend: Callable[[Subschemas], Node]
    """Lowers a nested subschema."""
    restores: bool = False
    """Whether arguments must be changed on the way back."""

    def branch(self, lowered: JsonValue, path: str, shape: Shape | None) -> Branch:
        """Return one alternative of a union, to be recognised in arguments."""

        def compiled() -> "Validator":
            import jsonschema_rs  # noqa: PLC0415  slow to import, rarely needed

            node = as_object(lowered)
            schema: JsonValue = lowered if node is None else {**node, **self.refs.definitions}
            schema = schema if self.rules.type_lists else _with_null(schema)
            return jsonschema_rs.validator_for(schema, validate_formats=False, offline=True)

        return Branch(compiled, lambda: self.source.validator(path), shape)

    def source_validator(self, path: str) -> SourceValidator:
        """Return a validator for one path of the tool's own schema."""
        return SourceValidator(lambda: self.source.validator(path))


def _with_null(value: JsonValue) -> JsonValue:
    """Convert `nullable` flags to plain JSON Schema."""
    listed, node = to_list(value), as_object(value)
    if listed is not None:
        return [_with_null(each) for each in listed]
    if node is None:
        return value
    plain = {keyword: _with_null(each) for keyword, each in node.items()}
    return {"anyOf": [plain, {"type": "null"}]} if node.get("nullable") is True else plain


@dataclass(slots=True)
class Draft:
    """One subschema while it is lowered."""

    state: LoweringState
    parts: list[Part]
    path: str
    """The path of the first part, or of the boolean schema."""
    root: bool
    output: JsonObject = field(default_factory=JsonObject)
    words: list[str] = field(default_factory=list[str])
    shape: Shape = field(default_factory=Shape)
    done: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Path and keyword of those already handled while the parts were collected."""
    moved: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Path and keyword of those emitted, or lost, by the alternatives of a union."""
    nullable_paths: set[str] = field(default_factory=set[str])
    """Paths of parts that need not allow null, because a sibling alternative does."""
    opened_types: JsonValue = None
    """The type of the target of a reference that was left open."""
    properties: dict[str, tuple[str, list[Place], Node]] = field(
        default_factory=dict[str, tuple[str, list[Place], Node]]
    )
    """By wire name: the tool's own name, the places that describe it, and the lowered node."""

    @property
    def rules(self) -> Rules:
        """The rules of the dialect."""
        return self.state.rules

    def accepts(self, keyword: str) -> bool:
        """Return whether the dialect accepts a keyword here."""
        return self.rules.accepts(keyword, root=self.root)

    @property
    def is_restricted(self) -> bool:
        """Whether the dialect accepts only a subset of JSON Schema."""
        return self.rules.keywords is not None

    def find(self, keyword: str) -> list[tuple[Part, JsonValue]]:
        """Return every part that has a keyword, with its value."""
        if len(self.parts) == 1 and keyword not in self.parts[0].schema:
            return []
        return [
            (part, part.schema[keyword])
            for part in self.parts
            if keyword in part.schema and (part.path, keyword) not in self.done
        ]

    def explain(self, keyword: str, detail: str, *, narrows: bool = False) -> None:
        """Record why a keyword will be changed, for every part that has it, or for the first part if none has."""
        owners = [part for part in self.parts if part.alias.get(keyword, keyword) in part.written]
        for part in owners or self.parts[:1]:
            self.state.losses.explain(part.path, part.alias.get(keyword, keyword), "rewritten", detail, narrows=narrows)

    def drop_rest(self, keyword: str, detail: str) -> None:
        """Record a keyword as dropped in every part but the first that has it."""
        self._drop(keyword, self.find(keyword)[1:], detail)

    def drop_all(self, keyword: str, detail: str) -> None:
        """Record a keyword as dropped in every part that has it."""
        self._drop(keyword, self.find(keyword), detail)

    def _drop(self, keyword: str, found: list[tuple[Part, JsonValue]], detail: str) -> None:
        for part, _ in found:
            self.state.losses.record(part.path, part.alias.get(keyword, keyword), "dropped", detail)

    def describe(self, keyword: str, value: JsonValue) -> None:
        """Put a constraint that cannot be emitted as a keyword into the description."""
        words = describe_constraint(keyword, value) if self.accepts("description") else None
        if words is not None:
            self.words.append(words)
            self.explain(keyword, f"moved to the description: {words}")

    def describe_each(
        self, keyword: str, emitted: JsonValue = None, *, reword: Callable[[JsonValue], JsonValue] = lambda value: value
    ) -> None:
        """Describe the values of a keyword that one value cannot express, except the emitted one."""
        for part, value in self.find(keyword):
            if keyword in self.output and is_same_json(value, emitted):
                continue
            own = part.alias.get(keyword, keyword)
            words = describe_constraint(keyword, reword(value)) if self.accepts("description") else None
            if words is not None:
                self.words.append(words)
                self.state.losses.explain(part.path, own, "rewritten", f"moved to the description: {words}")
            elif keyword in self.output:
                self.state.losses.explain(part.path, own, "dropped", "another value of this keyword is emitted")

    def build_error(self, why: str, remedy: str) -> CannotLowerError:
        """Return the error for a subschema that the dialect cannot express."""
        return CannotLowerError(f"{why} at {self.path or '/'}; {remedy}", path=self.path, why=why)

    def write_description(self) -> None:
        """Append the collected words to the description."""
        if self.words:
            self.output["description"] = append_words(self.output.get("description"), self.words)


def flatten_parts(draft: Draft, subschemas: Subschemas) -> list[Place]:
    """Collect the parts of a draft; return the references that were entered, to be left when it is done."""
    entered: list[Place] = []
    waiting = deque((each, False) for each in subschemas)
    while waiting:
        each, beside_null = waiting.popleft()
        part = each if isinstance(each, Part) else _part(draft, *each)
        if part is None:
            continue
        draft.parts.append(part)
        _note_draft(draft, part)
        same = [*_enter_references(draft, part, subschemas, entered), *_put_together(draft, part)]
        other = _besides_null(draft, part)
        if beside_null or other:
            draft.nullable_paths.add(part.path)
        inner = [*((place, beside_null) for place in same), *((place, True) for place in other)]
        waiting.extendleft(reversed(inner))
    return entered


def _part(draft: Draft, schema: JsonValue, path: str) -> Part | None:
    node = as_object(schema)
    if node is not None:
        return draft.state.source.part(node, path)
    if schema is True:
        draft.state.losses.record(path, "true", "rewritten", "emitted as a schema without constraints")
    else:
        draft.state.losses.record(path, "false", "dropped", "the dialect cannot express a schema that accepts no value")
    return None


def _note_draft(draft: Draft, part: Part) -> None:
    """Record the conversion of an older draft's keywords."""
    for keyword in part.written:
        if keyword not in part.schema:
            if "$ref" in part.schema:
                draft.state.losses.explain(part.path, keyword, "dropped", "ignored beside $ref in its draft")
            else:
                draft.state.losses.explain(part.path, keyword, "rewritten", "converted to draft 2020-12")


def _enter_references(draft: Draft, part: Part, subschemas: Subschemas, entered: list[Place]) -> list[Place]:
    state = draft.state
    inner: list[Place] = []
    for keyword in [keyword for keyword in REFERENCES if keyword in part.schema]:
        target = state.source.target(part, keyword)
        alone = not draft.root and part.path == draft.path and len(subschemas) == 1
        if target is not None and state.refs.is_kept(part, keyword, target, alone=alone):
            _keep(draft, part, keyword, target)
            continue
        draft.done.add((part.path, keyword))
        reason = "does not resolve to a single subschema" if target is None else state.refs.enter(target)
        if target is None or reason is not None:
            state.losses.record(part.path, keyword, "dropped", str(reason))
            draft.opened_types = (as_object(target[0]) or {}).get("type") if target is not None else None
            continue
        state.losses.rewrite(part.path, keyword, "inlined")
        entered.append(target)
        inner.append(target)
    return inner


def _keep(draft: Draft, part: Part, keyword: str, target: Place) -> None:
    draft.output["$ref"] = draft.shape.reference = draft.state.refs.address(target, str(part.schema[keyword]))
    draft.done.add((part.path, keyword))
    if not draft.rules.lone_refs or not has_siblings(part, keyword):
        return
    for other in part.schema:
        if other not in (keyword, *DEFINITION_KEYWORDS):
            draft.done.add((part.path, other))
            draft.state.losses.explain(
                part.path, other, "dropped", "the dialect accepts no keywords beside a reference"
            )


def _put_together(draft: Draft, part: Part) -> list[Place]:
    if "allOf" not in part.schema or draft.accepts("allOf") or (part.path, "allOf") in draft.done:
        return []
    draft.done.add((part.path, "allOf"))
    draft.state.losses.rewrite(part.path, "allOf", "merged with its sibling keywords")
    return part.children("allOf")


def _besides_null(draft: Draft, part: Part) -> list[Place]:
    """Return the only alternative to null, if the dialect expresses null by a flag."""
    if draft.rules.type_lists:
        return []
    for keyword in ("anyOf", "oneOf"):
        branches = part.children(keyword)
        others = [branch for branch in branches if not _is_null(branch[0])]
        is_taken = (part.path, keyword) in draft.done
        if len(others) == 1 and len(branches) > 1 and not is_taken and not get_constraints(part, keyword):
            draft.done.add((part.path, keyword))
            draft.state.losses.rewrite(part.path, keyword, "null is expressed by nullable")
            return others
    return []


def _is_null(schema: JsonValue) -> bool:
    node = as_object(schema)
    return node is not None and node.get("type") == "null" and not set(node) - {"type", "title", "description"}
