"""The roles of arguments: what a value of a call decides, and so who must have said it.

Roles stand in annotations (`Annotated[str, Target()]`) or in `Tool(roles=…)`. An undeclared text counts as a target and
anything else as a setting, which are the strictest readings. In a tool that only reads here, nothing leaves, so
undeclared values are free.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias

from spindle.errors import InvalidTrustError
from spindle.json_types import JsonObject, JsonValue, is_list_or_tuple, is_mapping, untyped
from spindle.trust.labels import UNKNOWN, Label

ROLE_KEY: Final = "x-spindle-role"
"""Marks a role in the JSON Schema of an annotated type; a tool removes it before a model sees the schema."""


@dataclass(frozen=True, slots=True)
class _Role:
    """A role of an argument."""

    name: ClassVar[str]

    def to_json(self) -> str:
        """Return the role as text: its name, and the kind of a reference."""
        return self.name

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> JsonObject:
        return {**handler(core_schema), ROLE_KEY: self.to_json()}


@dataclass(frozen=True, slots=True)
class Target(_Role):
    """Where something goes: an address, a recipient, a URL, an account."""

    name: ClassVar[str] = "target"


@dataclass(frozen=True, slots=True)
class Ref(_Role):
    """Which record a call is about, by its id; `kind` is that of `Tool(produces=…)`."""

    kind: str
    name: ClassVar[str] = "ref"

    def __post_init__(self) -> None:
        if not isinstance(untyped(self.kind), str) or not self.kind.strip():
            raise InvalidTrustError(
                f"Expected Ref(kind) with a text such as 'file', got {self.kind!r:.80}.", field="kind"
            )

    def to_json(self) -> str:
        """Return the role as text: its name, and the kind of a reference."""
        return f"ref:{self.kind}"


@dataclass(frozen=True, slots=True)
class Setting(_Role):
    """How something is done: an amount, a time, an option."""

    name: ClassVar[str] = "setting"


@dataclass(frozen=True, slots=True)
class Content(_Role):
    """What is sent or stored: a body, a subject, a file's text."""

    name: ClassVar[str] = "content"


@dataclass(frozen=True, slots=True)
class Free(_Role):
    """A value that cannot do harm, however it was chosen: a page size, a search in the user's own data."""

    name: ClassVar[str] = "free"


Role: TypeAlias = Target | Ref | Setting | Content | Free

_PLAIN: Final[Mapping[str, Role]] = {role.name: role for role in (Target(), Setting(), Content(), Free())}
ROLE_NAMES: Final = (*_PLAIN, "ref")


def read_role(given: object, *, field_name: str = "roles") -> Role:
    """Return a role given as an instance or as text, such as `target` or `ref:file`.

    Raises:
        InvalidTrustError: It is neither.
    """
    if isinstance(given, (Target, Ref, Setting, Content, Free)):
        return given
    if isinstance(given, str):
        name, _, kind = given.partition(":")
        if name in _PLAIN and not kind:
            return _PLAIN[name]
        if name == "ref" and kind.strip():
            return Ref(kind.strip())
    raise InvalidTrustError(
        f"Expected a role ({', '.join(_PLAIN)}, or ref:KIND such as ref:file), got {given!r:.80}.", field=field_name
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Produces:
    """The records that a tool returns: their kind, and where their ids are in its structured result."""

    kind: str
    path: tuple[str, ...] = ("id",)
    """Steps to the ids, `*` for every item; a single name is looked for at any depth."""

    @classmethod
    def read(cls, given: object) -> "Produces | None":
        """Return what `Tool(produces=…)` says: a kind such as `file`, or `{"file": "items.*.file_id"}`.

        Raises:
            InvalidTrustError: It is neither.
        """
        if given is None or isinstance(given, Produces):
            return given
        if isinstance(given, str) and given.strip():
            return cls(kind=given.strip())
        if is_mapping(given) and len(given) == 1:
            ((kind, path),) = given.items()
            if isinstance(kind, str) and kind.strip() and isinstance(path, str) and all(path.split(".")):
                return cls(kind=kind.strip(), path=tuple(path.split(".")))
        raise InvalidTrustError(
            f"Expected produces as a kind such as 'file', or {{'file': 'items.*.id'}}, got {given!r:.80}.",
            field="produces",
        )


class Leaf(NamedTuple):
    """One value inside the arguments of a call."""

    path: tuple[str, ...]
    """Names from the outside in; `*` stands for the position in a list."""
    value: str | float

    @property
    def name(self) -> str:
        """The path as people write it."""
        return ".".join(step for step in self.path if step != "*")


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolFlow:
    """What a policy knows about a tool."""

    name: str
    output: Label = UNKNOWN
    read_only: bool = False
    destructive: bool = False
    is_reader: bool = False
    """Whether it reads artifacts of earlier calls; its result has their labels."""
    reaches_network: bool = False
    produces: Produces | None = None
    roles: Mapping[str, Role] = field(default_factory=dict[str, Role])
    """Roles by dotted path; `*` stands for the items of a list."""
    defaults: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Defaults of the arguments, which the developer chose."""
    keys: frozenset[str] = frozenset()
    """The names that the schema gives to parts of an argument; another name is a value of the caller."""

    @property
    def is_free_by_default(self) -> bool:
        """Whether undeclared values are free: nothing leaves, and nothing changes."""
        return self.is_reader or (self.read_only and not self.reaches_network)

    def get_role(self, leaf: Leaf) -> Role:
        """Return the role of a value: the declared one of the longest path, or the strictest."""
        roles, path = self.roles, leaf.path
        for end in range(len(path), 0, -1) if roles else ():
            role = _find_role(roles, path[:end])
            if role is not None:
                return role
        if self.is_free_by_default:
            return _PLAIN["free"]
        return _PLAIN["target" if isinstance(leaf.value, str) else "setting"]

    def is_sink(self, leaves: Collection[Leaf]) -> bool:
        """Return whether a call can carry something out or change something."""
        if self.is_reader:
            return False
        return not self.read_only or self.destructive or any(isinstance(self.get_role(leaf), Target) for leaf in leaves)

    def get_leaves(self, args: Mapping[str, JsonValue]) -> tuple[Leaf, ...]:
        """Return every value in the arguments that says something: no `None`, no empty text."""
        return tuple(islice(_iterate(args, (), self.keys, is_outermost=True), MAX_LEAVES + 1))


class HasFlow(Protocol):
    """A tool, as far as a policy reads it."""

    @property
    def flow(self) -> ToolFlow:
        """What a policy knows about the tool."""
        ...


MAX_LEAVES: Final = 2_000
"""A call with more values is not judged one by one."""
_MAX_DEPTH: Final = 100


def _find_role(roles: Mapping[str, Role], path: tuple[str, ...]) -> Role | None:
    """Return the role of a path, or of the same path with `*` for names that the caller chose."""
    if any("." in step for step in path):  # such a name must not be read as a path
        path = tuple(step.replace(".", "\0") for step in path)
    role = roles.get(".".join(path))
    if role is not None or len(path) == 1:
        return role
    for pattern, each in roles.items():
        if "*" in pattern:
            steps = pattern.split(".")
            if len(steps) == len(path) and all(step in ("*", name) for step, name in zip(steps, path, strict=True)):
                return each
    return None


def _iterate(
    value: object, path: tuple[str, ...], keys: frozenset[str], *, is_outermost: bool = False
) -> Iterator[Leaf]:
    if isinstance(value, str):
        if value.strip():
            yield Leaf(path, value)
    elif isinstance(value, (bool, int, float)):
        yield Leaf(path, value)
    elif len(path) > _MAX_DEPTH:
        yield Leaf(path[:3], f"{type(value)} at depth {len(path)}")
    elif is_mapping(value):
        for key, part in value.items():
            name = str(key)
            if name not in keys and (keys or not is_outermost):
                yield Leaf((*path, "*"), name)
            yield from _iterate(part, (*path, name), keys)
    elif is_list_or_tuple(value):
        for part in value:
            yield from _iterate(part, (*path, "*"), keys)
    elif value is not None:
        yield Leaf(path, f"{value}")


def to_text(value: str | float) -> str:
    """Return a value as it would stand in a text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < _MAX_EXACT else repr(value)
    return str(value) if abs(value) < _MAX_WRITTEN else hex(value)


_MAX_EXACT: Final = 1e15
_MAX_WRITTEN: Final = 10**1_000
