"""What all schemas share: the `Schema` port, and the problems of a call's arguments in words for a model."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from spindle.errors import InvalidToolArgsError
from spindle.json_types import JsonObject, is_mapping
from spindle.text import did_you_mean, find_similar, quote_name, shorten, shorten_middle, to_printable
from spindle.tools import schema as schemas
from spindle.tools.function import Function

if TYPE_CHECKING:
    from spindle.trust.flow.roles import Role

Validate: TypeAlias = Callable[[JsonObject], object]
"""Takes parsed arguments; returns the value the handler receives, or raises `InvalidToolArgsError`."""


class Schema(Protocol):
    """The schema of a tool's arguments."""

    def json_schema(self) -> JsonObject:
        """Return the JSON Schema sent to the model."""
        ...

    def roles(self) -> "Mapping[str, Role]":
        """Return the roles that its types declare, by dotted path; a JSON Schema declares none."""
        ...

    def can_be_empty(self) -> bool:
        """Return whether empty argument text is accepted as an empty object."""
        ...

    def validator(self) -> Validate:
        """Return the function that validates a call's arguments."""
        ...

    def copying_validator(self) -> Validate:
        """Return the same for arguments that are kept: the value shares nothing with them that can be changed."""
        ...


def build_schema(source: object, *, tool: str, strict: bool, secret_fields: frozenset[str]) -> Schema:
    """Build the schema of a function, a class or a JSON Schema dict.

    Raises:
        InvalidToolError: The source cannot describe arguments.
    """
    # Each loads a large library on first use; a program that only defines tools should not load either.
    if is_mapping(source):
        return schemas.RawSchema(source, tool=tool, secret_fields=secret_fields)
    if isinstance(source, Function):
        types, texts = source.build_collector, source.parameter_texts
    else:
        types, texts = (lambda: source), dict[str, str]
    return schemas.TypedSchema(types, texts=texts, tool=tool, strict=strict, secret_fields=secret_fields)


Location: TypeAlias = tuple[str | int, ...]
"""The location of a value: keys and indexes, from the outside in."""

_MAX_SHOWN = 20
_MAX_PATH = 200
_MAX_NAME = 60
_MAX_EXPECTED = 600
_SPEAKS_FOR_ITSELF = ("missing", "unknown argument")

_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "a boolean",
    int: "a whole number",
    float: "a number",
    str: "text",
    bytes: "bytes",
    list: "a list",
    tuple: "a list",
    dict: "an object",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One reason why arguments were rejected; never contains a received value."""

    path: str
    """Like `filters.dates[2].start`; empty for the arguments as a whole."""
    expected: str
    received: str
    """The kind that was received: "text", "null", "a list", "missing", "unknown argument"."""
    hint: str | None = None
    """The nearest valid option, if there is one."""


def build_refusal(tool: str, problems: Sequence[Problem] | Callable[[], Sequence[Problem]]) -> InvalidToolArgsError:
    """Build the error for rejected arguments; problems passed as a callable are computed on first access."""
    return InvalidToolArgsError(format_problems, tool=tool, problems=problems)


def format_problems(problems: Sequence[Problem], tool: str | None) -> str:
    """Build the message for the model: one line per problem, then what to do."""
    name = to_printable(tool, _MAX_NAME) if tool else "this tool"
    lines = [f"The arguments for {name} were refused and nothing was run:"]
    lines += [_line(problem) for problem in problems[:_MAX_SHOWN]]
    if len(problems) > _MAX_SHOWN:
        lines.append(f"- and {len(problems) - _MAX_SHOWN} more")
    lines.append(f"Correct this and call {name} again.")
    return "\n".join(lines)


def _line(problem: Problem) -> str:
    where = f"{problem.path}: " if problem.path else ""
    expected = shorten(problem.expected, _MAX_EXPECTED)
    hint = f"; {problem.hint}" if problem.hint else ""
    if problem.received in _SPEAKS_FOR_ITSELF:
        return f"- {where}{problem.received}; expected {expected}{hint}"
    return f"- {where}expected {expected}, received {problem.received}{hint}"


def merge_by_path(problems: list[Problem]) -> list[Problem]:
    """Merge problems with the same path into one whose expectations are joined by "or"."""
    at: dict[str, Problem] = {}
    for problem in problems:
        before = at.get(problem.path)
        if before is None:
            at[problem.path] = problem
        elif problem.expected not in before.expected.split(" or "):
            hint = before.hint or problem.hint
            at[problem.path] = replace(before, expected=f"{before.expected} or {problem.expected}", hint=hint)
    return list(at.values())


def describe_kind(value: object) -> str:
    """Return the kind of a value in words, without any of its content."""
    kind = type(value)
    if kind in _KINDS:
        return _KINDS[kind]
    for base, words in _KINDS.items():
        if isinstance(value, base):
            return words
    return f"a Python {to_printable(kind.__name__, _MAX_NAME)}"


def suggest_name(word: object, options: Iterable[str]) -> str | None:
    """Return a hint with the argument name closest to `word`."""
    return did_you_mean(word, options) or None


def suggest_option(word: object, options: Iterable[object]) -> str | None:
    """Return a hint with the allowed value closest to `word`."""
    found = find_similar(word, (option for option in options if isinstance(option, str)))
    return f"nearest: {quote_name(found[0])}" if found else None


def format_location(loc: Sequence[str | int]) -> str:
    """Format a location like `filters.dates[2].start`."""
    parts: list[str] = []
    for step in loc:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif step.isidentifier() and len(step) <= _MAX_NAME:
            parts.append(f".{step}" if parts else step)
        else:
            parts.append(f"[{quote_name(step)}]")
    return shorten_middle("".join(parts), _MAX_PATH)
