"""Admission checks: an ordered list of functions that may reject a call before it runs, and JSON repair hints.

Calls are checked in batch order. The first check that returns an `Err`, or raises, rejects the call.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, NamedTuple, TypeAlias, cast

from spindle.calls import Call, Err
from spindle.capabilities.declare import NO_CAPABILITIES
from spindle.capabilities.resolve import Backends, find_missing_backends
from spindle.errors import InvalidToolArgsError, NotCanonicalError
from spindle.events import Events
from spindle.execution.call_state import CallState
from spindle.execution.cancellation import external_cancellation
from spindle.execution.results import mask_secret_fields, to_err
from spindle.tools.arguments import MASK, copy_arguments, mask_arguments, read_arguments
from spindle.tools.declaration import get_runnable
from spindle.tools.entry import Entry, is_available
from spindle.tools.filters import ToolFilter, find_refusal
from spindle.tools.identity import canonical_json, checksum
from spindle.tools.invocation import run_checks
from spindle.tools.registry import ToolRegistry
from spindle.tools.schema.base import Schema
from spindle.tools.schema.problems import find_nearest, join_options, to_printable

_MAX_TEXT = 100_000
_MAX_SHOWN = 2_000
_TRAILING_COMMA = re.compile(r",\s*([}\]])")
_BARE_KEY = re.compile(r"([{,]\s*)([A-Za-z_]\w*)\s*:")


def suggest_repair(refused: Err, job: CallState, schema: Schema) -> Err:
    """Add the corrected arguments to a rejection if a mechanical repair makes them valid."""
    args, tool = job.call.args, job.entry.tool
    text = args.decode("utf-8", "replace") if isinstance(args, bytes) else args
    if not isinstance(text, str) or len(text) > _MAX_TEXT:
        return refused
    for repaired in _repairs(text, tool.name):
        if _is_valid(repaired, schema):
            shown = canonical_json(mask_arguments(repaired, tool.secret_fields)).decode()
            return replace(
                refused, error=f"{refused.error}\n{_hint(shown, is_masked=_has_secret_field(repaired, tool))}"
            )
    return refused


def _hint(shown: str, *, is_masked: bool) -> str:
    if len(shown) > _MAX_SHOWN:
        return f"It was not run. If you meant the object that begins like this, send it whole: {shown[:_MAX_SHOWN]}…"
    secret = f", with your own secret in the place of {MASK}" if is_masked else ""
    return f"It was not run. If you meant this, send exactly it{secret}: {shown}"


def _has_secret_field(arguments: dict[str, Any], tool: Any) -> bool:
    return any(name in arguments for name in tool.secret_fields)


def _repairs(text: str, tool: str) -> Iterator[dict[str, Any]]:
    """Yield repairs of common JSON mistakes of models; a truncated object is never completed."""
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


def _is_valid(arguments: dict[str, Any], schema: Schema) -> bool:
    try:
        schema.validator()(arguments, None)
    except Exception:  # noqa: BLE001  any failure means that the arguments are invalid
        return False
    return True


_MAX_NAME = 60
_MAX_COMPARED = 1000


class AdmissionContext(NamedTuple):
    """The inputs of the admission checks, shared by every call of a batch."""

    registry: ToolRegistry
    filter: ToolFilter | None
    backends: Backends
    events: Events
    explain_repairs: bool = False


AdmissionCheck: TypeAlias = Callable[[CallState, AdmissionContext], Err | None]


def admit(job: CallState, admission: AdmissionContext) -> Err | None:
    """Run every check on a call; return the error of the first that rejects it, or `None`."""
    gate = CHECKS[0]
    try:
        for gate in CHECKS:
            refused = gate(job, admission)
            if refused is not None:
                return refused
    except BaseException as error:  # noqa: BLE001  a check that raises rejects; no await, so no cancellation
        name = to_printable(job.call.name, _MAX_NAME)
        admission.events.warn(
            f"an admission check of {name!r} raised {type(error).__name__}", source=gate.__name__, error=error
        )
        return _build_check_failure(name, error)
    return None


def check_is_call(job: CallState, admission: AdmissionContext) -> Err | None:  # noqa: ARG001
    """Reject values that are not a `Call`, and replace them by one so that the outcome has an id and a name."""
    call = job.call
    if type(call) is Call and type(call.name) is str and type(call.tool_call_id) is str and call.tool_call_id.isascii():
        return None
    name, call_id = _text(call, "name"), _text(call, "tool_call_id")
    is_call = issubclass(type(cast("object", call)), Call) and name is not None and call_id is not None
    job.call = Call(call_id or "", name or "", call.args if is_call else None)
    if is_call:
        return None
    return Err("input_invalid", "Expected Call(tool_call_id, name, args) with text for tool_call_id and name.")


def _text(given: object, field: str) -> str | None:
    """Return a text attribute that can be encoded as UTF-8, else `None`."""
    try:
        value: object = getattr(given, field)
        if not isinstance(value, str):
            return None
        value.encode()
        return str.__str__(value)
    except BaseException:  # noqa: BLE001  reading a foreign attribute may raise anything
        return None


def check_known(job: CallState, admission: AdmissionContext) -> Err | None:
    """Reject an unknown tool name and suggest the closest visible ones."""
    entry = admission.registry.entry(job.call.name)
    if entry is not None:
        job.entry = entry
        return None
    names = [each.tool.name for each in admission.registry.entries() if _is_visible(each, admission)]
    close = _closest(job.call.name, names)
    name = to_printable(job.call.name, _MAX_NAME)
    hint = (
        f"did you mean {join_options(close)}?"
        if close
        else f"the tools are: {join_options(map(repr, names)) or 'none'}."
    )
    return Err("not_available", f"There is no tool {name!r}; {hint}", field="name")


def _closest(word: str, names: list[str]) -> list[str]:
    """Return up to three similar names, the closest first."""
    best = find_nearest(word, names)
    if best is None:
        return []
    alike = get_close_matches(word, names[:_MAX_COMPARED], n=3)
    return [repr(name) for name in dict.fromkeys((best, *alike))][:3]


def _is_visible(entry: Entry, admission: AdmissionContext) -> bool:
    """Return whether `to_definitions` would list the tool; a tool whose check raises is not listed."""
    try:
        return (
            not entry.hidden
            and find_refusal(entry, admission.filter) is None
            and is_available(entry.tool, admission.events)
        )
    except BaseException:  # noqa: BLE001
        return False


def check_permitted(job: CallState, admission: AdmissionContext) -> Err | None:
    """Reject a tool that the caller's filter excludes."""
    refused = None if admission.filter is None else find_refusal(job.entry, admission.filter)
    return None if refused is None else Err("not_available", refused.message)


def check_available(job: CallState, admission: AdmissionContext) -> Err | None:
    """Reject a tool whose `is_available` returns false."""
    if is_available(job.entry.tool, admission.events):
        return None
    text = f"The tool {job.call.name!r} is not available at the moment."
    why = getattr(job.entry.tool.is_available, "why", None)  # an availability check may give a reason
    return Err("not_available", f"{text} {why()}" if callable(why) else text, retryable=True)


def check_has_backends(job: CallState, admission: AdmissionContext) -> Err | None:
    """Reject a tool that requires a capability without a backend."""
    needs = job.entry.tool.capabilities
    lacking = None if needs is NO_CAPABILITIES else find_missing_backends(needs, admission.backends)
    if not lacking:
        return None
    text = f"The tool {job.call.name!r} requires {', '.join(lacking)}, but this executor has no backend for it."
    return Err("not_available", text)


def check_arguments(job: CallState, admission: AdmissionContext) -> Err | None:
    """Reject arguments that do not match the schema."""
    call, tool = job.call, job.entry.tool
    job.runnable = runnable = get_runnable(tool)
    schema = runnable.schema
    try:
        job.arguments = read_arguments(call.args, tool=tool.name, empty_ok=schema.can_be_empty())
        if not isinstance(call.args, (bytes, str)) and isinstance(call.args, Mapping):
            # A mapping may hold values that JSON lacks, which have no checksum; and the caller may change it later.
            job.known_checksum = checksum(tool.name, job.arguments)
            job.arguments = copy_arguments(job.arguments)
        job.value = schema.validator()(copy_arguments(job.arguments), call.args)
    except (InvalidToolArgsError, NotCanonicalError) as error:
        refused = to_err(error, tool=tool.name)
        return suggest_repair(refused, job, schema) if admission.explain_repairs else refused
    return None


CHECKS: tuple[AdmissionCheck, ...] = (
    check_is_call,
    check_known,
    check_permitted,
    check_available,
    check_has_backends,
    check_arguments,
)


async def run_tool_checks(job: CallState) -> Err | None:
    """Run the tool's own async checks, after all other checks; return the rejection, or `None`."""
    tool = job.entry.tool
    try:
        await run_checks(tool.checks, job.value, job.ctx, tool=tool.name)
    except BaseException as error:  # noqa: BLE001  a check that raises rejects the call
        ending = external_cancellation(error)
        if ending is not None:
            raise ending from None
        if isinstance(error, InvalidToolArgsError):
            return mask_secret_fields(to_err(error, tool=tool.name), job.arguments, tool.secret_fields)
        job.ctx.events.warn(f"a check of {tool.name!r} raised {type(error).__name__}", source="checks", error=error)
        return _build_check_failure(tool.name, error)
    return None


def _build_check_failure(tool: str, error: BaseException) -> Err:
    return Err("not_available", f"The tool {tool!r} cannot be used now: a check before it failed.", cause=error)
