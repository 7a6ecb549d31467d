"""One subschema on its way into a dialect: what it says so far, and what remains to be said in words."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from spindle.bridges.lowering_parts import Original, Part, Place, listing
from spindle.bridges.lowering_refs import References
from spindle.bridges.lowering_restoring import Branch, Own, Shape
from spindle.bridges.lowering_tally import Tally, same
from spindle.bridges.lowering_words import with_words, words_for
from spindle.bridges.rules import Rules
from spindle.errors import CannotLowerError
from spindle.tools.raw_copy import as_object

if TYPE_CHECKING:
    from jsonschema_rs import Validator


@dataclass(frozen=True, slots=True)
class Node:
    """A subschema in the dialect's words."""

    told: Any
    """A dict, or a boolean where the dialect takes booleans."""
    shape: Shape | None = None
    parts: tuple[Part, ...] = ()
    """What it was made of."""


Asked: TypeAlias = list[Place | Part]
"""Subschemas that one value must satisfy, all of them."""


@dataclass(slots=True)
class Job:
    """What all subschemas of one schema share while it is lowered."""

    original: Original
    rules: Rules
    refs: References
    tally: Tally
    descend: Callable[[Asked], Node]
    """Lowers a subschema that is inside another."""
    restores: bool = False
    """Whether arguments must be changed on the way back."""

    def branch(self, told: Any, path: str, shape: Shape | None) -> Branch:
        """Make one alternative of a union, to be recognised in arguments."""

        def compiled() -> "Validator":
            import jsonschema_rs  # noqa: PLC0415 - slow to import, and few tools need it here

            node = as_object(told)
            schema: Any = told if node is None else {**node, **self.refs.shelves}
            schema = schema if self.rules.type_lists else _with_null(schema)
            return jsonschema_rs.validator_for(schema, validate_formats=False, offline=True)

        return Branch(compiled, lambda: self.original.validator(path), shape)

    def own(self, path: str) -> Own:
        """Take one place of the tool's own schema, to hold arguments against."""
        return Own(lambda: self.original.validator(path))


def _with_null(value: Any) -> Any:
    """Give a schema that tells null by a flag as JSON Schema has it."""
    listed, node = listing(value), as_object(value)
    if listed is not None:
        return [_with_null(each) for each in listed]
    if node is None:
        return value
    plain = {keyword: _with_null(each) for keyword, each in node.items()}
    return {"anyOf": [plain, {"type": "null"}]} if node.get("nullable") is True else plain


@dataclass(slots=True)
class Draft:
    """One subschema while it is lowered."""

    job: Job
    parts: list[Part]
    path: str
    """Of the first part; of the boolean where there is none."""
    root: bool
    told: dict[str, Any] = field(default_factory=dict[str, Any])
    words: list[str] = field(default_factory=list[str])
    shape: Shape = field(default_factory=Shape)
    done: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Path and keyword of what was dealt with while the parts were gathered."""
    moved: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Path and keyword of what is told, or lost, by the alternatives of a choice."""
    nullable_paths: set[str] = field(default_factory=set[str])
    """Of parts that need not allow null, for it is allowed beside them."""
    opened_types: Any = None
    """The type of what a reference that was left open leads to."""
    properties: dict[str, tuple[str, list[Place], Node]] = field(
        default_factory=dict[str, tuple[str, list[Place], Node]]
    )
    """By the name on the wire: the tool's own name, where it is described, and what it became."""

    @property
    def rules(self) -> Rules:
        """The rules of the dialect."""
        return self.job.rules

    def takes(self, keyword: str) -> bool:
        """Say whether the dialect takes a keyword here."""
        return self.rules.takes(keyword, root=self.root)

    @property
    def is_restricted(self) -> bool:
        """Whether the dialect takes a part of JSON Schema only."""
        return self.rules.keywords is not None

    def found(self, keyword: str) -> list[tuple[Part, Any]]:
        """Give every part that has a keyword, with its value."""
        if len(self.parts) == 1 and keyword not in self.parts[0].schema:
            return []
        return [
            (part, part.schema[keyword])
            for part in self.parts
            if keyword in part.schema and (part.path, keyword) not in self.done
        ]

    def why(self, keyword: str, detail: str, *, narrows: bool = False) -> None:
        """Say why a keyword will be told otherwise, in every part that has it, or in the first where none has."""
        owners = [part for part in self.parts if part.alias.get(keyword, keyword) in part.written]
        for part in owners or self.parts[:1]:
            self.job.tally.why(part.path, part.alias.get(keyword, keyword), "rewritten", detail, narrows=narrows)

    def lose_rest(self, keyword: str, detail: str) -> None:
        """Count as lost what a keyword says in every part but the first that has it."""
        self._lose(keyword, self.found(keyword)[1:], detail)

    def lose_all(self, keyword: str, detail: str) -> None:
        """Count as lost what a keyword says in every part that has it."""
        self._lose(keyword, self.found(keyword), detail)

    def _lose(self, keyword: str, found: list[tuple[Part, Any]], detail: str) -> None:
        for part, _ in found:
            self.job.tally.lose(part.path, part.alias.get(keyword, keyword), "dropped", detail)

    def say(self, keyword: str, value: Any) -> None:
        """Tell in words what cannot be told by the keyword."""
        words = words_for(keyword, value) if self.takes("description") else None
        if words is not None:
            self.words.append(words)
            self.why(keyword, f"told in the description: {words}")

    def say_each(self, keyword: str, told: Any = None, *, reword: Callable[[Any], Any] = lambda value: value) -> None:
        """Tell in words what a keyword says in each part, where no one value says it all; not what is `told`."""
        for part, value in self.found(keyword):
            if keyword in self.told and same(value, told):
                continue
            own = part.alias.get(keyword, keyword)
            words = words_for(keyword, reword(value)) if self.takes("description") else None
            if words is not None:
                self.words.append(words)
                self.job.tally.why(part.path, own, "rewritten", f"told in the description: {words}")
            elif keyword in self.told:
                self.job.tally.why(part.path, own, "dropped", "another one beside it is told")

    def refuse(self, why: str, remedy: str) -> CannotLowerError:
        """Make the error for what the dialect cannot take at all."""
        return CannotLowerError(f"{why} at {self.path or '/'}; {remedy}", path=self.path, why=why)

    def put_words(self) -> None:
        """Put what was told in words into the description."""
        if self.words:
            self.told["description"] = with_words(self.told.get("description"), self.words)
