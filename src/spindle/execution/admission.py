"""The refusals, in order: each is one small function, and the first that has something to say ends the call.

They run before anything is done, in the order of the batch. Whatever a guard raises refuses the call.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, NamedTuple, TypeAlias, cast

from spindle.calls import Call, Err
from spindle.capabilities.declare import NO_CAPABILITIES
from spindle.capabilities.resolve import Backends, unserved
from spindle.errors import InvalidToolArgsError, NotCanonicalError
from spindle.events import Events
from spindle.execution.call_state import CallState
from spindle.execution.cancellation import external_cancellation
from spindle.execution.results import err_of, without_secrets
from spindle.tools.arguments import MASK, masked, own_copy, read_arguments
from spindle.tools.declaration import runnable_of
from spindle.tools.entry import Entry, is_available
from spindle.tools.filters import ToolFilter, refusal
from spindle.tools.identity import canonical_json, checksum
from spindle.tools.invocation import run_checks
from spindle.tools.registry import ToolRegistry
from spindle.tools.schema.base import Schema
from spindle.tools.schema.problems import listed, nearest, printable

_MAX_TEXT = 100_000
_MAX_SHOWN = 2_000
_TRAILING_COMMA = re.compile(r",\s*([}\]])")
_BARE_KEY = re.compile(r"([{,]\s*)([A-Za-z_]\w*)\s*:")


def suggest_repair(refused: Err, job: CallState, schema: Schema) -> Err:
    """Add to a refusal what the call would have been, if a mechanical repair makes it valid."""
    args, tool = job.call.args, job.entry.tool
    text = args.decode("utf-8", "replace") if isinstance(args, bytes) else args
    if not isinstance(text, str) or len(text) > _MAX_TEXT:
        return refused
    for repaired in _repairs(text, tool.name):
        if _fits(repaired, schema):
            shown = canonical_json(masked(repaired, tool.secret_fields)).decode()
            return replace(refused, error=f"{refused.error}\n{_hint(shown, is_masked=_has(repaired, tool))}")
    return refused


def _hint(shown: str, *, is_masked: bool) -> str:
    if len(shown) > _MAX_SHOWN:
        return f"It was not run. If you meant the object that begins like this, send it whole: {shown[:_MAX_SHOWN]}…"
    secret = f", with your own secret in the place of {MASK}" if is_masked else ""
    return f"It was not run. If you meant this, send exactly it{secret}: {shown}"


def _has(arguments: dict[str, Any], tool: Any) -> bool:
    return any(name in arguments for name in tool.secret_fields)


def _repairs(text: str, tool: str) -> Iterator[dict[str, Any]]:
    """Undo what models often do to JSON; an object that is cut off is never completed."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return
    alone = text[start : end + 1]
    tidy = _TRAILING_COMMA.sub(r"\1", alone)
    for candidate in (alone, tidy, _BARE_KEY.sub(r'\1"\2":', tidy.replace("'", '"'))):
        try:
            yield read_arguments(candidate, tool=tool, empty_ok=False)
        except InvalidToolArgsError:
            continue


def _fits(arguments: dict[str, Any], schema: Schema) -> bool:
    try:
        schema.validator()(arguments, None)
    except Exception:  # noqa: BLE001  a validator that fails does not say that it fits
        return False
    return True


_MAX_NAME = 60
_MAX_COMPARED = 1000


class AdmissionContext(NamedTuple):
    """What the gates judge by: the same for every call of a batch."""

    registry: ToolRegistry
    filter: ToolFilter | None
    backends: Backends
    events: Events
    explain_repairs: bool = False


Gate: TypeAlias = Callable[[CallState, AdmissionContext], Err | None]


def admit(job: CallState, house: AdmissionContext) -> Err | None:
    """Take a call through every gate; gives the refusal of the first that does not let it pass."""
    gate = GATES[0]
    try:
        for gate in GATES:
            refused = gate(job, house)
            if refused is not None:
                return refused
    except BaseException as error:  # noqa: BLE001  a guard that raises refuses; nothing waits here, so nobody is cancelled
        name = printable(job.call.name, _MAX_NAME)
        house.events.warn(f"a guard of {name!r} raised {type(error).__name__}", source=gate.__name__, error=error)
        return _cannot_check(name, error)
    return None


def is_a_call(job: CallState, house: AdmissionContext) -> Err | None:  # noqa: ARG001
    """Refuse what is not a `Call` at all; something that is one takes its place, for the answer to have a name."""
    call = job.call
    if type(call) is Call and type(call.name) is str and type(call.tool_call_id) is str and call.tool_call_id.isascii():
        return None
    name, call_id = _text(call, "name"), _text(call, "tool_call_id")
    is_call = issubclass(type(cast("object", call)), Call) and name is not None and call_id is not None
    job.call = Call(call_id or "", name or "", call.args if is_call else None)
    if is_call:
        return None
    return Err("input_invalid", "That is not a call: expected Call(tool_call_id, name, args), id and name being text.")


def _text(given: object, field: str) -> str | None:
    """Read a text that can be written down; half a surrogate pair cannot."""
    try:
        value: object = getattr(given, field)
        if not isinstance(value, str):
            return None
        value.encode()
        return str.__str__(value)
    except BaseException:  # noqa: BLE001  whatever it is, it is no text
        return None


def is_known(job: CallState, house: AdmissionContext) -> Err | None:
    """Refuse a name no tool has, and offer the closest one the caller may see."""
    entry = house.registry.entry(job.call.name)
    if entry is not None:
        job.entry = entry
        return None
    names = [each.tool.name for each in house.registry.entries() if _is_shown(each, house)]
    close = _closest(job.call.name, names)
    name = printable(job.call.name, _MAX_NAME)
    hint = f"did you mean {listed(close)}?" if close else f"the tools are: {listed(map(repr, names)) or 'none'}."
    return Err("not_available", f"There is no tool {name!r}; {hint}", field="name")


def _closest(word: str, names: list[str]) -> list[str]:
    """Find the few names that were probably meant, the likeliest first."""
    best = nearest(word, names)
    if best is None:
        return []
    alike = get_close_matches(word, names[:_MAX_COMPARED], n=3)
    return [repr(name) for name in dict.fromkeys((best, *alike))][:3]


def _is_shown(entry: Entry, house: AdmissionContext) -> bool:
    """Tell what `to_definitions` would show; a tool that fails to answer is not shown."""
    try:
        return not entry.hidden and refusal(entry, house.filter) is None and is_available(entry.tool, house.events)
    except BaseException:  # noqa: BLE001
        return False


def is_permitted(job: CallState, house: AdmissionContext) -> Err | None:
    """Refuse what the caller's filter turns down."""
    refused = None if house.filter is None else refusal(job.entry, house.filter)
    return None if refused is None else Err("not_available", refused.message)


def check_available(job: CallState, house: AdmissionContext) -> Err | None:
    """Refuse a tool that says it cannot be used now."""
    if is_available(job.entry.tool, house.events):
        return None
    text = f"The tool {job.call.name!r} is not available at the moment."
    why = getattr(job.entry.tool.is_available, "why", None)  # a guard may be able to say more than no
    return Err("not_available", f"{text} {why()}" if callable(why) else text, retryable=True)


def check_has_backends(job: CallState, house: AdmissionContext) -> Err | None:
    """Refuse a tool that needs what nobody serves here."""
    needs = job.entry.tool.capabilities
    lacking = None if needs is NO_CAPABILITIES else unserved(needs, house.backends)
    if not lacking:
        return None
    text = f"The tool {job.call.name!r} cannot be used here: it needs {', '.join(lacking)}, which nothing serves."
    return Err("not_available", text)


def is_well_formed(job: CallState, house: AdmissionContext) -> Err | None:
    """Refuse arguments that are not what the schema says; nothing has run."""
    call, tool = job.call, job.entry.tool
    job.runnable = runnable = runnable_of(tool)
    schema = runnable.schema
    try:
        job.arguments = read_arguments(call.args, tool=tool.name, empty_ok=schema.takes_nothing())
        if not isinstance(call.args, (bytes, str)) and isinstance(call.args, Mapping):
            # A mapping may hold what JSON cannot, and then it has no checksum; and it stays its owner's, to change.
            job.known_checksum = checksum(tool.name, job.arguments)
            job.arguments = own_copy(job.arguments)
        job.value = schema.validator()(own_copy(job.arguments), call.args)
    except (InvalidToolArgsError, NotCanonicalError) as error:
        refused = err_of(error, tool=tool.name)
        return suggest_repair(refused, job, schema) if house.explain_repairs else refused
    return None


GATES: tuple[Gate, ...] = (is_a_call, is_known, is_permitted, check_available, check_has_backends, is_well_formed)


async def refused_by_checks(job: CallState) -> Err | None:
    """Ask the tool's own checks, which may wait for something; they come after every other gate."""
    tool = job.entry.tool
    try:
        await run_checks(tool.checks, job.value, job.ctx, tool=tool.name)
    except BaseException as error:  # noqa: BLE001  a guard that raises refuses
        ending = external_cancellation(error)
        if ending is not None:
            raise ending from None
        if isinstance(error, InvalidToolArgsError):
            return without_secrets(err_of(error, tool=tool.name), job.arguments, tool.secret_fields)
        job.ctx.events.warn(f"a check of {tool.name!r} raised {type(error).__name__}", source="checks", error=error)
        return _cannot_check(tool.name, error)
    return None


def _cannot_check(tool: str, error: BaseException) -> Err:
    return Err("not_available", f"The tool {tool!r} cannot be used now: a check before it failed.", cause=error)
