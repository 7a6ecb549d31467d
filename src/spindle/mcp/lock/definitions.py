"""The definitions that a server lists, each with its fingerprint."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, cast

from spindle.artifacts.tokens import estimate_from_text
from spindle.errors import NotCanonicalError
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.tools.identity import canonical_json

DefinitionKind: TypeAlias = Literal["tool", "prompt", "resource_template", "app"]

KINDS: Final[tuple[DefinitionKind, ...]] = ("tool", "prompt", "resource_template", "app")

_KEYS: Final[Mapping[DefinitionKind, str]] = {
    "tool": "name",
    "prompt": "name",
    "resource_template": "uriTemplate",
    "app": "uri",
}
"""The field that identifies a definition of each kind in its server."""
_LABELS: Final = frozenset(("name", "title", "uri", "uriTemplate"))
"""Fields that a rename changes; the others are the content."""

MAX_BYTES: Final = 1 << 20
"""Size limit of one definition as canonical JSON."""
MAX_FACT_BYTES: Final = 1 << 16
MAX_DEPTH: Final = 100
MAX_NAME_CHARS: Final = 1_000
MAX_INTEGER: Final = 10**300
"""Beyond this a number is longer than other programs read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LockedDefinition:
    """One definition as its server listed it."""

    kind: DefinitionKind
    name: str
    """Its name, the URI template of a resource template, or the URI of an app."""
    value: JsonObject = field(repr=False)
    """The whole definition."""
    fingerprint: str
    """SHA-256 of the canonical JSON of `value`."""
    content: str
    """The fingerprint without names and titles, which a renamed definition keeps."""

    @property
    def description_sha256(self) -> str:
        """The hash of the description; that of the empty text if it has none."""
        return sha256(self.description.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def description(self) -> str:
        """The description, or an empty text."""
        text = self.value.get("description")
        return text if isinstance(text, str) else ""

    def estimate_tokens(self) -> int:
        """Return the price of the definition: the estimated tokens of its JSON."""
        return estimate_from_text(canonical_json(self.value))


def read_definition(kind: DefinitionKind, value: JsonValue) -> LockedDefinition:
    """Fingerprint a definition.

    Raises:
        ValueError: It has no usable name, is too large or nested too deeply, or has no canonical form.
    """
    name = get_name(kind, value)
    if not name or len(name) > MAX_NAME_CHARS:
        raise ValueError(f"its name is missing or longer than {MAX_NAME_CHARS} characters")
    if not is_bounded(value):
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels, or has text or numbers that JSON cannot carry")
    try:
        data = canonical_json(value)
    except NotCanonicalError:
        raise ValueError("it has no canonical JSON, such as a number that is infinite") from None
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES} bytes")
    content = {key: part for key, part in cast("JsonObject", value).items() if key not in _LABELS}
    return LockedDefinition(
        kind=kind,
        name=name,
        value=value,
        fingerprint=sha256(data).hexdigest(),
        content=sha256(canonical_json(content)).hexdigest(),
    )


def get_name(kind: DefinitionKind, value: JsonValue) -> str:
    """Return the name of a definition, or an empty text."""
    name = value.get(_KEYS[kind]) if is_object(value) else None
    return name if isinstance(name, str) else ""


def is_bounded(value: JsonValue) -> bool:
    """Return whether a value is within the limits of a lock file: depth, size of numbers, no lone surrogates.

    It does not recurse, since the depth is not known yet.
    """
    waiting: list[tuple[JsonValue, int]] = [(value, 1)]
    while waiting:
        part, depth = waiting.pop()
        if depth > MAX_DEPTH or (isinstance(part, int) and abs(part) > MAX_INTEGER):
            return False
        if isinstance(part, str) and not _is_unicode(part):
            return False
        if is_object(part):
            waiting.extend((each, depth + 1) for pair in part.items() for each in pair)
        elif is_array(part):
            waiting.extend((each, depth + 1) for each in part)
    return True


def bound_facts(facts: JsonObject) -> JsonObject:
    """Return what a server says about itself, or a note if a lock file cannot hold it."""
    try:
        is_small = is_bounded(facts) and len(canonical_json(facts)) <= MAX_FACT_BYTES
    except NotCanonicalError:
        is_small = False
    return facts if is_small else {"unreadable": True}


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """The definitions of one kind that a server listed, by name."""

    kind: DefinitionKind
    definitions: Mapping[str, LockedDefinition] = field(default_factory=dict[str, LockedDefinition])
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why definitions cannot be fingerprinted, by name; such a name is not in `definitions`."""

    @classmethod
    def read(cls, kind: DefinitionKind, values: Iterable[JsonValue]) -> "Listing":
        """Fingerprint a listing; a name that is listed twice with different definitions is a problem."""
        found: dict[str, LockedDefinition] = {}
        problems: dict[str, str] = {}
        for value in values:
            try:
                read = read_definition(kind, value)
            except ValueError as error:
                problems[get_name(kind, value)[:MAX_NAME_CHARS]] = str(error)
                continue
            if found.setdefault(read.name, read).fingerprint != read.fingerprint:
                problems[read.name] = "it is listed twice, with different definitions"
        kept = {name: each for name, each in found.items() if name not in problems}
        return cls(kind=kind, definitions=MappingProxyType(kept), problems=MappingProxyType(problems))
