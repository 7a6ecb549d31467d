"""Translation of pydantic's validation errors into problems for the model; received values are never included."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from spindle.json_types import JsonObject, JsonValue
from spindle.text import join_options, quote_name, to_printable
from spindle.tools.schema.base import (
    Location,
    Problem,
    describe_kind,
    format_location,
    merge_by_path,
    suggest_name,
    suggest_option,
)

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails  # only for types: programs without such a tool do not load it

_OBJECT = "an object"
_WHOLE = "a whole number"
_NUMBER = "a number"
_DATE = "a date such as 2026-01-31"
_TIME = "a time such as 14:30:00"
_MOMENT = "a date and time such as 2026-01-31T14:30:00Z"
_DURATION = "a duration such as PT1H30M, or a number of seconds"
_UNIQUE = "a list without repeats"

EXPECTED_WORDS: dict[str, str] = {
    "none_required": "null",
    "string_type": "text",
    "string_unicode": "text of whole characters",
    "string_not_ascii": "plain ASCII text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": "a whole number with fewer digits",
    "int_from_float": "a whole number, without a fraction",
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "a finite number",
    "decimal_type": "a decimal number",
    "decimal_parsing": "a decimal number",
    "fraction_type": "a fraction such as 1/3",
    "fraction_parsing": "a fraction such as 1/3",
    "complex_type": "a complex number",
    "complex_str_parsing": "a complex number",
    "bytes_type": "text",
    "bytes_invalid_encoding": "text in the encoding the tool takes",
    "list_type": "a list",
    "tuple_type": "a list",
    "deque_type": "a list",
    "iterable_type": "a list",
    "set_type": _UNIQUE,
    "frozen_set_type": _UNIQUE,
    "set_item_not_hashable": "an item that is not a list or an object",
    "dict_type": _OBJECT,
    "frozen_dict_type": _OBJECT,
    "ordered_dict_type": _OBJECT,
    "counter_type": _OBJECT,
    "mapping_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dataclass_type": _OBJECT,
    "dataclass_exact_type": _OBJECT,
    "named_tuple_type": _OBJECT,
    "arguments_type": _OBJECT,
    "invalid_key": "a name that is text",
    "recursion_loop": "a value that does not contain itself",
    "recursion_depth_exceeded": "a flatter value",
    "date_type": _DATE,
    "date_parsing": _DATE,
    "date_from_datetime_parsing": _DATE,
    "date_from_datetime_inexact": _DATE,
    "date_past": "a date in the past",
    "date_future": "a date in the future",
    "time_type": _TIME,
    "time_parsing": _TIME,
    "datetime_type": _MOMENT,
    "datetime_parsing": _MOMENT,
    "datetime_object_invalid": _MOMENT,
    "datetime_from_date_parsing": _MOMENT,
    "datetime_past": "a date and time in the past",
    "datetime_future": "a date and time in the future",
    "timezone_naive": "a date and time without a time zone",
    "timezone_aware": "a date and time with a time zone",
    "timezone_offset": "a date and time in the time zone the tool takes",
    "time_delta_type": _DURATION,
    "time_delta_parsing": _DURATION,
    "url_type": "a URL",
    "url_parsing": "a URL",
    "url_syntax_violation": "a URL",
    "uuid_type": "a UUID",
    "uuid_parsing": "a UUID",
    "json_type": "JSON text",
    "json_invalid": "JSON text",
}

EXPECTED_TEMPLATES: dict[str, str] = {
    "greater_than": "a number greater than {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than": "a number less than {lt}",
    "less_than_equal": "a number of at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "string_too_short": "text of at least {min_length} characters",
    "string_too_long": "text of at most {max_length} characters",
    "string_pattern_mismatch": "text that matches the pattern {pattern}",
    "bytes_too_short": "text of at least {min_length} bytes",
    "bytes_too_long": "text of at most {max_length} bytes",
    "too_short": "at least {min_length} items",
    "too_long": "at most {max_length} items",
    "url_too_long": "a URL of at most {max_length} characters",
    "uuid_version": "a UUID of version {expected_version}",
    "decimal_max_digits": "at most {max_digits} digits",
    "decimal_max_places": "at most {decimal_places} decimal places",
    "decimal_whole_digits": "at most {whole_digits} digits before the decimal point",
    "is_instance_of": "a {class}",
    "is_subclass_of": "a subclass of {class}",
}
"""Templates over pydantic's error context, of which only numbers and patterns of the schema are used."""


NamesAt: TypeAlias = Callable[[Location], Sequence[str]]
"""Returns the names that the object at a location may have; empty if unknown."""

_MISSING = frozenset(
    ("missing", "missing_argument", "missing_keyword_only_argument", "missing_positional_only_argument")
)
_UNKNOWN = frozenset(("extra_forbidden", "unexpected_keyword_argument", "unexpected_positional_argument"))
_CHOICES = {"literal_error": "expected", "enum": "expected", "url_scheme": "expected_schemes"}
_OWN_WORDS = re.compile(r"^(Value error, |Assertion failed, |Input should be )")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_BRANCH = re.compile(
    r"(int|str|float|bool|none|bytes|date|time|datetime|timedelta|decimal|uuid|url|any|.+\[.*\]|constrained-.+)$"
)
_KEY = "[key]"
_UNKNOWN_GIVEN: Final = object()
_NOWHERE: Final = object()
_ANY = "a valid value"


@dataclass(frozen=True, slots=True)
class _LocatedError:
    """One of pydantic's errors, with the union branch separated from its path."""

    error: "ErrorDetails"
    path: Location
    union: Location | None = None
    branch: str | int | None = None


def translate_errors(
    errors: Iterable["ErrorDetails"],
    *,
    names_at: NamesAt | None = None,
    secret_fields: frozenset[str] = frozenset(),
    given: object = _UNKNOWN_GIVEN,
) -> list[Problem]:
    """Translate the items of `ValidationError.errors()` into problems.

    With the arguments in `given`, the names of union branches are removed from paths exactly; otherwise by a heuristic.
    """
    words = _Words(names_at=names_at, secret_fields=secret_fields, given=given)
    found = [_locate(error, given) for error in errors]
    return merge_by_path([words.problem(each) for each in _best_branches(found)])


def _locate(error: "ErrorDetails", given: object) -> _LocatedError:
    """Resolve the path of an error; a step that does not exist in the arguments is the name of a union branch."""
    loc: Location = tuple(error["loc"])
    names_itself = error["type"] in _MISSING or error["type"] in _UNKNOWN
    path: list[str | int] = []
    union: Location | None = None
    branch: str | int | None = None
    here = given
    for index, step in enumerate(loc):
        inner = _child(here, step)
        is_own_name = names_itself and index == len(loc) - 1
        if is_own_name or step == _KEY or inner is not _NOWHERE or (given is _UNKNOWN_GIVEN and not _looks(step, path)):
            path.append(step)
            here = inner
        elif union is None:
            union, branch = tuple(path), step
    return _LocatedError(error, tuple(path), union, branch)


def _child(value: JsonValue, step: str | int) -> object:
    if type(value) not in (dict, list, tuple):
        return _NOWHERE
    try:
        return value[step]
    except (LookupError, TypeError):
        return _NOWHERE


def _looks(step: str | int, before: list[str | int]) -> bool:
    """Return whether a step is named like a union branch; the first step, an argument name, never is."""
    return bool(before) and isinstance(step, str) and _BRANCH.match(step) is not None


def _best_branches(found: list[_LocatedError]) -> list[_LocatedError]:
    """Keep the nearest branches of each union: those that accept the value's type, with fewest problems."""
    unions: dict[Location, dict[str | int | None, list[_LocatedError]]] = {}
    for each in found:
        if each.union is not None:
            unions.setdefault(each.union, {}).setdefault(each.branch, []).append(each)
    dropped: set[int] = set()
    for union, branches in unions.items():
        closer = {name: each for name, each in branches.items() if all(len(one.path) > len(union) for one in each)}
        if not closer:
            continue
        fewest = min(len(each) for each in closer.values())
        kept = {name for name, each in closer.items() if len(each) == fewest}
        dropped.update(id(one) for name, each in branches.items() if name not in kept for one in each)
    return [each for each in found if id(each) not in dropped]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """A translator of located errors that does not reveal secret fields."""

    names_at: NamesAt | None
    secret_fields: frozenset[str]
    given: object

    def problem(self, found: _LocatedError) -> Problem:
        path, error = found.path, found.error
        if path and path[0] in self.secret_fields:
            return self._secret(found)
        if path and path[-1] == _KEY:
            expected = f"every name in it to be {self._describe_expected(error, path)}"
            return Problem(path=format_location(path[:-2]), expected=expected, received="another name")
        if error["type"] in _UNKNOWN:
            return self._unknown(path)
        special = _SPECIAL.get(error["type"])
        if special:
            return special(path, error)
        return Problem(
            path=format_location(path),
            expected=self._describe_expected(error, path),
            received=describe_kind(error.get("input")),
        )

    def _secret(self, found: _LocatedError) -> Problem:
        """Describe what a secret field accepts, with nothing derived from its value: no inner path, message or hint."""
        kind = found.error["type"]
        path = format_location(found.path[:1])
        is_own = len(found.path) == 1
        if is_own and kind in _MISSING:
            return _build_missing(found.path, found.error)
        if is_own and kind in _UNKNOWN:
            return Problem(path=path, expected="only names that the tool knows", received="unknown argument")
        expected = _by_table(found.error) if is_own else None
        received = describe_kind(found.error.get("input")) if is_own else "another value"
        return Problem(path=path, expected=expected or _ANY, received=received)

    def _unknown(self, path: Location) -> Problem:
        names = self.names_at(path[:-1]) if self.names_at else ()
        expected = f"only {join_options(map(quote_name, names))}" if names else "only names that the tool knows"
        hint = suggest_name(path[-1], names)
        return Problem(path=format_location(path), expected=expected, received="unknown argument", hint=hint)

    def _describe_expected(self, error: "ErrorDetails", path: Location) -> str:
        return _by_table(error) or self._message(error, path)

    def _message(self, error: "ErrorDetails", path: Location) -> str:
        """Return the message of a validator written by the tool's author, unless it may contain a secret."""
        message = _OWN_WORDS.sub("", str(error.get("msg", "")))
        if self.secret_fields and (not path or self._reveals(message)):
            return _ANY
        return f"{_ANY}: {to_printable(message)}" if message else _ANY

    def _reveals(self, message: str) -> bool:
        if self.given is _UNKNOWN_GIVEN:
            return True
        secrets = (_child(self.given, field) for field in self.secret_fields)
        return any(text in message for secret in secrets for text in _texts(secret))


def _texts(value: JsonValue) -> list[str]:
    """Return every text in which a secret value could appear in a message."""
    texts: list[str] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if type(each) in (list, tuple):
            waiting.extend(each)
        elif type(each) is dict:
            waiting.extend([*each, *each.values()])
        elif each is not None and each is not _NOWHERE:
            texts += [str(each), repr(each)]
    return [text for text in texts if text]


def _by_table(error: "ErrorDetails") -> str | None:
    kind = error["type"]
    if kind in EXPECTED_WORDS:
        return EXPECTED_WORDS[kind]
    template = EXPECTED_TEMPLATES.get(kind)
    try:
        return to_printable(template.format_map(_context(error))) if template else None
    except (KeyError, ValueError):
        return None


def _build_missing(path: Location, _error: "ErrorDetails") -> Problem:
    return Problem(path=format_location(path), expected="a value, for it is required", received="missing")


def _choice(path: Location, error: "ErrorDetails") -> Problem:
    allowed = str(_context(error).get(_CHOICES[error["type"]], ""))
    received = error.get("input")
    hint = suggest_option(received, _options(allowed))
    noun = "a URL whose scheme is " if error["type"] == "url_scheme" else ""
    return Problem(
        path=format_location(path), expected=noun + to_printable(allowed), received=describe_kind(received), hint=hint
    )


def _tag(path: Location, error: "ErrorDetails") -> Problem:
    """Return the problem of a union's discriminator key."""
    ctx = _context(error)
    allowed = str(ctx.get("expected_tags", ""))
    key = str(ctx.get("discriminator", "")).strip("'")
    where = format_location((*path, key) if key.isidentifier() else path)
    if error["type"] == "union_tag_not_found":
        return Problem(path=where, expected="a value that says which kind of object this is", received="missing")
    hint = suggest_option(ctx.get("tag"), _options(allowed))
    words = join_options(map(quote_name, _options(allowed))) or to_printable(allowed)
    return Problem(path=where, expected=words, received="another value", hint=hint)


def _options(allowed: str) -> list[str]:
    return [single or double for single, double in _QUOTED.findall(allowed)]


def _context(error: "ErrorDetails") -> JsonObject:
    return error.get("ctx", {})


_SPECIAL: dict[str, Callable[[Location, "ErrorDetails"], Problem]] = {
    **dict.fromkeys(_MISSING, _build_missing),
    **dict.fromkeys(_CHOICES, _choice),
    **dict.fromkeys(("union_tag_invalid", "union_tag_not_found"), _tag),
}
