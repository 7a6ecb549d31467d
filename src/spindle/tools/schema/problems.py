"""Problems of a call's arguments in words for a model: the path, what was expected, and the kind received."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from spindle.errors import InvalidToolArgsError

Location: TypeAlias = tuple[str | int, ...]
"""The location of a value: keys and indexes, from the outside in."""

_MAX_SHOWN = 20
_MAX_PATH = 200
_MAX_NAME = 60
_MAX_WORDS = 400
_MAX_EXPECTED = 600
_MAX_COMPARED = 1000
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
    expected = problem.expected if len(problem.expected) <= _MAX_EXPECTED else f"{problem.expected[:_MAX_EXPECTED]}…"
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


def find_nearest(word: str, options: Iterable[str]) -> str | None:
    """Return the option closest to `word`, or None."""
    if not word or len(word) > _MAX_NAME:
        return None
    folded: dict[str, str] = {}
    for option in options:
        if len(option) <= _MAX_NAME:
            folded.setdefault(_fold(option), option)
        if len(folded) >= _MAX_COMPARED:
            break
    wanted = _fold(word)
    if wanted in folded:
        return folded[wanted]
    from difflib import get_close_matches  # noqa: PLC0415 - only rejected calls need it, and it is slow to import

    close = get_close_matches(wanted, folded, n=1)
    return folded[close[0]] if close else None


def _fold(word: str) -> str:
    """Normalize a name so that `orderId`, `order-id` and `Order ID` are equal."""
    return word.casefold().replace("_", "").replace("-", "").replace(" ", "") or word


def suggest_name(word: object, options: Iterable[str]) -> str | None:
    """Return a hint with the argument name closest to `word`."""
    found = find_nearest(word, options) if isinstance(word, str) else None
    return None if found is None else f"did you mean {quote_name(found)}?"


def suggest_option(word: object, options: Iterable[Any]) -> str | None:
    """Return a hint with the allowed value closest to `word`."""
    texts = (option for option in options if isinstance(option, str))
    found = find_nearest(word, texts) if isinstance(word, str) else None
    return None if found is None else f"nearest: {quote_name(found)}"


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
    path = "".join(parts)
    half = _MAX_PATH // 2
    return path if len(path) <= _MAX_PATH else f"{path[:half]}…{path[-half:]}"


def join_options(options: Iterable[str], *, limit: int = 20) -> str:
    """Format options as `'a', 'b' or 'c'`, at most `limit` of them."""
    names = list(options)
    shown = names[:limit]
    if len(names) > limit:
        return f"{', '.join(shown)} or {len(names) - limit} others"
    return " or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def quote_name(name: str) -> str:
    """Quote an untrusted name, shortened and with non-printable characters escaped."""
    return f"'{to_printable(name, _MAX_NAME)}'"


def to_printable(text: str, limit: int = _MAX_WORDS) -> str:
    """Truncate untrusted text and escape non-printable characters, which could disturb a terminal or a prompt."""
    cut = text[:limit]
    if not cut.isprintable():
        cut = "".join(c if c.isprintable() else _escape(c) for c in cut)
    return cut if len(text) <= limit else f"{cut}…"


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
