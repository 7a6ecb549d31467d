"""Reading secrets from text: one JSON object, or `KEY=value` lines. No I/O, and no message shows a value."""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from spindle.errors import SecretError

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_NAME = re.compile(r"(?:export[ \t]+)?([^\s=#'\"]+)[ \t]*=[ \t]*")
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_BARE = re.compile(r"[^\n]*")
_AFTER = re.compile(r"[ \t]*(?:#[^\n]*)?\r?(?=\n|\Z)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\n": ""}


def parse_secrets(text: str, *, place: str) -> Mapping[str, str]:
    """Read names and values; a text that begins with `{` is JSON, every other one is lines.

    In lines, `'…'` is taken as it is, `"…"` knows the escapes of JSON's kind (`\\n`, `\\"`), both may span lines; a
    bare value ends at the line's end or at ` #`. Nothing is substituted.

    Raises:
        SecretError: It is neither; says where, never what.
    """
    return _from_json(text, place) if text.lstrip().startswith("{") else _from_lines(text, place)


def _from_json(text: str, place: str) -> Mapping[str, str]:
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "somewhere"
    else:
        return _only_texts(found, place)
    # Outside the handler: the error of the parser carries the whole text.
    raise SecretError(f"the file {place} begins like JSON and is none: look at {where}")


def _only_texts(found: Any, place: str) -> Mapping[str, str]:
    values = cast("dict[str, object]", found)  # it begins with a brace
    wrong = sorted(name for name, value in values.items() if not isinstance(value, str))
    if wrong:
        raise SecretError(f"the file {place} must map names to texts; these are none: {', '.join(wrong)}")
    return cast("Mapping[str, str]", values)


def _from_lines(text: str, place: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    at = _skip(text, 0)
    while at < len(text):
        named = _NAME.match(text, at)
        value, end = (None, at) if named is None else _value(text, named.end())
        if named is None or value is None:
            line = text.count("\n", 0, at) + 1
            raise SecretError(f"the file {place} is not understood in line {line}: expected KEY=value")
        found[named[1]] = value
        at = _skip(text, end)
    return found


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return at if blank is None else blank.end()


def _value(text: str, at: int) -> tuple[str | None, int]:
    for quoted in (_SINGLE, _DOUBLE):
        match = quoted.match(text, at)
        if match is not None:
            value = match[1] if quoted is _SINGLE else _ESCAPE.sub(lambda it: _ESCAPES.get(it[1], it[1]), match[1])
            after = _AFTER.match(text, match.end())
            return (None, at) if after is None else (value, after.end())
    if text[at : at + 1] in {"'", '"'}:
        return None, at  # a quote that nobody closes
    bare = _BARE.match(text, at)
    raw = "" if bare is None else bare[0]
    return re.split(r"(?:^|[ \t])#", raw, maxsplit=1)[0].strip(), at + len(raw)
