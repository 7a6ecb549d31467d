r"""Approval of calls by a person, and the dry-run preview that shows a call without running it.

Every way of asking a person uses `render_approval`, which shows every argument. Its text is written like JSON, so that
a quotation mark inside a value cannot end it. Characters without a glyph, and those that change the direction of text,
are written as numbers (`\u202e`, `\U000e0041`). Nothing is normalized: the person must see what the handler will get.
"""

import json
import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from hashlib import sha256
from itertools import accumulate, takewhile
from typing import Any, Final, NamedTuple, TypeAlias, cast

from pydantic_core import to_json, to_jsonable_python

from spindle.calls import Err, Ok
from spindle.errors import UnshowableRequestError
from spindle.execution.call_state import AdmittedCall
from spindle.execution.cancellation import external_cancellation
from spindle.execution.results import HandlerResult, build_invalid_result, to_err
from spindle.json_types import JsonObject, JsonValue, is_list_or_tuple, is_mapping, untyped
from spindle.text import INVISIBLE, quote_name
from spindle.tools.arguments import build_redactor, copy_masked, mask_arguments
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.invocation import is_awaitable
from spindle.trust.envelope import to_one_line
from spindle.trust.labels import SinkPolicy

_MAX_REASON = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalRequest:
    """The call to approve, exactly as it will run."""

    tool: Tool
    args: JsonValue
    """A copy of the arguments that the handler will receive, with secrets masked; show it by `render_approval`."""
    checksum: str
    ctx: ToolContext
    caller: JsonObject | None = None
    """Who asked for the turn, as passed to `TurnRunner.run`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalAnswer:
    """An answer to a request that also says who gave it, for the journal."""

    approved: bool
    by: str | None = None
    reason: str | None = None
    """Why it was denied; the model sees it."""


Approve: TypeAlias = Callable[[ApprovalRequest], Awaitable[bool | str | ApprovalAnswer] | bool | str | ApprovalAnswer]
"""Sync or async; returns `True` to approve, `False`, or a text with the reason, to deny, or an `ApprovalAnswer`."""


def name_answers(approve: Approve, by: str) -> Approve:
    """Return an approver that also says who answers."""

    async def ask_named(request: ApprovalRequest) -> ApprovalAnswer:
        said: Any = approve(request)
        answer: object = await said if is_awaitable(said) else said
        if isinstance(answer, ApprovalAnswer):
            return answer
        return ApprovalAnswer(approved=answer is True, by=by, reason=answer if isinstance(answer, str) else None)

    return ask_named


class Asked(NamedTuple):
    """What became of a request for approval."""

    refused: Err | None
    by: str | None = None
    is_answered: bool = True
    """Whether the approver has answered; it may have failed."""


async def request_approval(state: AdmittedCall, approve: Approve | None) -> HandlerResult | None:
    """Ask for approval; return the rejection, or `None` if the call may run."""
    refused = build_approval_needed(state.entry.tool.name) if approve is None else (await ask(state, approve)).refused
    return None if refused is None else HandlerResult(refused)


def approve_always(_: ApprovalRequest) -> bool:
    """Approve every call: for one that a person has approved before."""
    return True


def build_approval_needed(tool: str, *, ticket: str | None = None) -> Err:
    """Build the result of a call that no person can approve now; with a ticket, it may still be approved later."""
    if ticket is None:
        text = f"The tool {tool!r} needs a person's approval, and no approver is configured. It was not run."
    else:
        text = f"The tool {tool!r} needs a person's approval. It was not run; it runs once a person has approved it."
    return Err("needs_approval", text, by="spindle", ticket=ticket)


def build_denied(tool: str, reason: object = None) -> Err:
    """Build the result of a call that a person denied."""
    note = f" The reason: {to_one_line(reason, _MAX_REASON)}" if isinstance(reason, str) and reason else ""
    return Err("denied", f"The tool {tool!r} was not approved, so it was not run.{note}", by="spindle")


async def ask(state: AdmittedCall, approve: Approve) -> Asked:
    """Ask the approver; one that raises denies the call."""
    tool = state.entry.tool
    try:
        args = state.ctx.redact_value(copy_masked(state.value, tool.secret_fields))
        request = ApprovalRequest(tool=tool, args=args, checksum=state.checksum, ctx=state.ctx, caller=state.ctx.caller)
        said: Any = approve(request)
        answer: object = await said if is_awaitable(said) else said
    except UnshowableRequestError as error:
        return Asked(Err("denied", f"{error} It was not run.", cause=error, by="spindle"), is_answered=False)
    except BaseException as error:  # noqa: BLE001  an approver that raises denies the call
        ending = external_cancellation(error)
        if ending is not None:
            raise ending from None
        state.ctx.events.warn(f"the approval callback of {tool.name!r} failed", source="approve", error=error)
        text = f"The tool {tool.name!r} was not approved: the approval request failed. It was not run."
        return Asked(Err("denied", text, cause=error, by="spindle"), is_answered=False)
    if isinstance(answer, ApprovalAnswer):
        refused = None if answer.approved is True else build_denied(tool.name, answer.reason)
        return Asked(refused, answer.by if isinstance(answer.by, str) else None)
    return Asked(None if answer is True else build_denied(tool.name, answer))


def require_sink_approval(sinks: SinkPolicy, states: Sequence[AdmittedCall], *, tainted: bool) -> None:
    """Require approval for calls to dangerous tools once untrusted content has entered the turn."""
    for state, is_risky in zip(
        states, sinks.judge([state.entry.tool for state in states], tainted=tainted), strict=True
    ):
        state.needs_approval = state.needs_approval or is_risky


_MAX_TEXT = 500


async def dry_run_preview(state: AdmittedCall) -> Ok | Err:
    """Return the tool's own preview, or a text with the call as it would be made."""
    tool = state.entry.tool
    if tool.preview is not None:
        return await _call_preview(state, tool.preview)
    shown = _shorten(mask_arguments(state.arguments, tool.secret_fields))
    return Ok(f"[dry-run] {tool.name} would be called with: {to_json(shown).decode()}{_approval_note(state)}")


def _approval_note(state: AdmittedCall) -> str:
    return "\n[dry-run] Approval would be needed: a person has to approve this call." if state.needs_approval else ""


async def _call_preview(state: AdmittedCall, preview: Callable[..., object]) -> Ok | Err:
    tool = state.entry.tool
    secrets = build_redactor(state.arguments, tool.secret_fields)
    try:
        said: Any = preview(state.value, state.ctx)
        text: object = await said if is_awaitable(said) else said
    except BaseException as error:  # noqa: BLE001  every exception of a tool becomes its result
        ending = external_cancellation(error)
        if ending is not None:
            raise ending from None
        return to_err(error, tool=tool.name, expose=tool.expose_errors, secrets=secrets)
    if not isinstance(text, str):
        return build_invalid_result(tool.name, f"its preview returned {type(text).__name__}, not text")
    return Ok(f"[dry-run] {secrets.redact(text)}{_approval_note(state)}")


def _shorten(value: JsonValue) -> JsonValue:
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        return f"{value[:_MAX_TEXT]}...[truncated, {len(value)} chars]"
    if is_mapping(value):
        return {key: _shorten(part) for key, part in value.items()}
    if is_list_or_tuple(value):
        return [_shorten(part) for part in value]
    return value


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
    return ApprovalText(f"Run {reveal(request.tool.name)} with {request.ctx.redact(text)}?", writer.is_complete)


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
