r"""The text by which a person is asked about a call: every argument, and why it is asked.

Every way of asking a person uses `render_approval`, which shows every argument. Its text is written like JSON, so that
a quotation mark inside a value cannot end it. Characters without a glyph, and those that change the direction of text,
are written as numbers (`\u202e`, `\U000e0041`). Nothing is normalized: the person must see what the handler will get.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from hashlib import sha256
from itertools import accumulate, takewhile
from typing import Final, cast

from pydantic_core import to_jsonable_python

from spindle.errors import UnshowableRequestError
from spindle.execution.approval import ApprovalRequest
from spindle.json_types import is_mapping, untyped
from spindle.text import INVISIBLE, quote_name

MAX_VALUE_CHARS: Final = 600
"""A longer text is summarised by its head, its tail, its length and its hash."""
MAX_LIST_CHARS: Final = 3_000
"""A list that takes more characters is summarised by its first and last items, their number and its hash."""
MAX_SHOWN_CHARS: Final = 32_000
"""A request whose summary is longer is refused: a person would not find an argument in it."""
MAX_FULL_CHARS: Final = 1_000_000
"""A request that is longer in full is refused: its values could not be shown."""
_HEAD_CHARS: Final = 300
_TAIL_CHARS: Final = 200
_MAX_DEPTH: Final = 200
_MAX_MARKS: Final = 2
_MAX_SPACES: Final = 8
_ODD: Final = re.compile(r"[^ !#-\[\]-~]+")
_BLANK: Final = "\u2800\U00016fe4\U0001d159"
"""Symbols that are drawn as nothing: an empty Braille pattern, a Khitan filler, a null note."""
_HIDDEN: Final = re.compile(f"[{INVISIBLE}{_BLANK}]")
_SPACES: Final = re.compile(f" {{{_MAX_SPACES + 1},}}")
_SHORT_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True, slots=True)
class ApprovalText:
    """The text of an approval request, and whether every value is in it in full."""

    text: str
    is_complete: bool


def render_approval(request: ApprovalRequest, *, full: bool = False, indent: bool = False) -> ApprovalText:
    """Return the tool and every argument of a request; long values are summarised unless `full`.

    With `indent`, each argument has lines of its own; otherwise the text is one line.

    Raises:
        UnshowableRequestError: The arguments are too large, nested too deeply, or of a type that has no text form.
    """
    writer = _Writer(indent=indent, is_full=full, max_chars=MAX_FULL_CHARS if full else MAX_SHOWN_CHARS)
    try:
        text = writer.write(request.args)
        if not writer.is_complete:  # it must be possible to show the rest as well
            _Writer(indent=indent, is_full=True, max_chars=MAX_FULL_CHARS).write(request.args)
    except _TooLongError as error:
        raise _refuse(request, f"they take more than {error.max_chars} characters") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _refuse(request, f"a value cannot be written as text ({type(error).__name__})") from None
    question = f"Run {reveal(request.tool.name)} with {request.ctx.redact(text)}?"
    return ApprovalText(f"{question}{_render_reasons(request.reasons, indent=indent)}", writer.is_complete)


def _render_reasons(reasons: Sequence[str], *, indent: bool) -> str:
    """Return why a person is asked, to put after the question; the reasons quote values that others wrote."""
    shown = [reveal(reason).replace('\\"', '"') for reason in reasons]
    if not shown:
        return ""
    return "".join(f"\n  Why: {reason}." for reason in shown) if indent else f" Why: {'; '.join(shown)}."


def reveal(text: str) -> str:
    """Return a text on one line, with quotation marks escaped and everything that a reader cannot see as numbers."""
    shown = _ODD.sub(lambda run: _spell_run(run[0]), text)
    return _SPACES.sub(lambda run: f"\\u0020[{len(run[0])} times]", shown)


def _spell_run(text: str) -> str:
    pieces: list[str] = []
    marks = _MAX_MARKS  # a mark at the start would be drawn over a character that is not part of the value
    for character in text:
        marks = marks + 1 if unicodedata.category(character)[0] == "M" else 0
        pieces.append(_spell(character) if marks <= _MAX_MARKS else _number(character))
    return "".join(pieces)


def _spell(character: str) -> str:
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    is_visible = character.isprintable() and not _HIDDEN.match(character)
    return character if is_visible else _number(character)


def _number(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _refuse(request: ApprovalRequest, reason: str) -> UnshowableRequestError:
    return UnshowableRequestError(
        f"The arguments of {quote_name(request.tool.name)} cannot be shown to a person: {reason}. "
        "Call it with smaller or simpler arguments.",
        tool=request.tool.name,
    )


class _TooLongError(Exception):
    def __init__(self, max_chars: int) -> None:
        super().__init__(max_chars)
        self.max_chars = max_chars


class _Writer:
    """Writes a value like JSON, in at most `max_chars` characters."""

    def __init__(self, *, indent: bool, is_full: bool, max_chars: int) -> None:
        self._indent, self._is_full, self._max_chars = indent, is_full, max_chars
        self.is_complete = True
        """Whether no value was summarised."""

    def write(self, value: object, depth: int = 0) -> str:
        if depth > _MAX_DEPTH:
            raise RecursionError
        plain = _to_plain(value)
        if isinstance(plain, str):
            text = self._write_text(plain)
        elif isinstance(plain, dict):
            named = [f'"{reveal(name)}": {self.write(part, depth + 1)}' for name, part in plain.items()]
            text = self._enclose("{", named, "}", depth)
        elif isinstance(plain, list):
            text = self._write_list(plain, depth)
        else:
            text = json.dumps(plain)
        if len(text) > self._max_chars:
            raise _TooLongError(self._max_chars)
        return text

    def _write_text(self, text: str) -> str:
        if self._is_full:
            return f'"{reveal(text[: self._max_chars])}"' if len(text) <= self._max_chars else text
        if len(text) <= MAX_VALUE_CHARS and len(shown := reveal(text)) <= MAX_VALUE_CHARS:
            return f'"{shown}"'
        self.is_complete = False
        head, tail = _cut(text, _HEAD_CHARS), _cut(text[::-1], _TAIL_CHARS)[::-1]
        return f'"{reveal(head)}" … "{reveal(tail)}" ({len(text)} characters, sha256 {_hash(text)})'

    def _write_list(self, values: list[object], depth: int) -> str:
        items = [self.write(part, depth + 1) for part in values]
        whole = self._enclose("[", items, "]", depth)
        if self._is_full or len(whole) <= MAX_LIST_CHARS:
            return whole
        head = max(1, _count_within(items, MAX_LIST_CHARS // 2))
        tail = _count_within(items[: head - 1 : -1], MAX_LIST_CHARS // 4)
        left = len(items) - head - tail
        if left <= 0:
            return whole
        self.is_complete = False
        digest = _hash(_Writer(indent=False, is_full=True, max_chars=MAX_FULL_CHARS).write(values))
        note = f"… {left} of {len(items)} items are not shown here, sha256 of the list {digest} …"
        return self._enclose("[", [*items[:head], note, *items[len(items) - tail :]], "]", depth)

    def _enclose(self, opening: str, items: list[str], closing: str, depth: int) -> str:
        if not items or not self._indent:
            return f"{opening}{', '.join(items)}{closing}"
        space = "\n" + "  " * (depth + 1)
        return f"{opening}{space}{(',' + space).join(items)}\n{'  ' * depth}{closing}"


def _to_plain(value: object) -> "str | float | dict[str, object] | list[object] | None":
    """Return a value as text, number, dict, list or `None`; its parts are not converted.

    Fields of models and dataclasses are read directly: their own serialization may omit some.
    """
    if isinstance(value, Enum):
        value = untyped(value.value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "backslashreplace")
    if is_mapping(value):
        named = {_to_name(name): part for name, part in value.items()}
        if len(named) != len(value):
            raise ValueError("two keys have the same text")
        return named
    if isinstance(value, (list, tuple, Set)):
        return list(cast("Iterable[object]", value))
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if hasattr(type(value), "__pydantic_fields__"):
        return {**vars(value), **(getattr(value, "__pydantic_extra__", None) or {})}
    return to_jsonable_python(value)


def _to_name(name: object) -> str:
    return name if isinstance(name, str) else str(to_jsonable_python(name))


def _count_within(items: Sequence[str], chars: int) -> int:
    """Return how many of the first items take at most this number of characters."""
    return sum(1 for _ in takewhile(lambda total: total <= chars, accumulate(len(item) + 2 for item in items)))


def _cut(text: str, chars: int) -> str:
    """Return the longest beginning of a text that takes at most this number of characters when it is revealed."""
    return text[: _count_within([reveal(each) for each in text[:chars]], 3 * chars)]


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
