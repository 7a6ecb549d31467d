"""Admission checks: an ordered list of functions that may reject a call before it runs, and JSON repair hints.

Calls are checked in batch order. The first check that returns an `Err`, or raises, rejects the call.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias, cast

from spindle.calls import Call, Err, RawArgs
from spindle.capabilities.declare import NO_CAPABILITIES
from spindle.capabilities.resolve import Backends, find_missing_backends
from spindle.capabilities.secrets.secret import Redactor
from spindle.errors import InvalidToolArgsError, NotCanonicalError
from spindle.events import Events
from spindle.execution.call_state import AdmittedCall, RefusedCall, compute_identity
from spindle.execution.cancellation import external_cancellation
from spindle.execution.failures import redact_err, to_err
from spindle.execution.results import HandlerResult
from spindle.json_types import JsonObject
from spindle.text import MASK, shorten, to_encodable, to_printable
from spindle.tools.arguments import build_redactor, copy_arguments, copy_plain, mask_arguments, read_arguments
from spindle.tools.context import ToolContext, ToolRunner
from spindle.tools.declaration import Tool, get_runnable
from spindle.tools.entry import Entry, is_available
from spindle.tools.filters import ToolFilter, find_refusal
from spindle.tools.identity import canonical_json, checksum
from spindle.tools.invocation import run_checks
from spindle.tools.registry import ToolRegistry
from spindle.tools.schema.base import Schema

_MAX_TEXT = 100_000
_MAX_SHOWN = 2_000
# Compiled on first use: most models send valid JSON.
_TRAILING_COMMA = r",\s*([}\]])"
_BARE_KEY = r"([{,]\s*)([A-Za-z_]\w*)\s*:"


def suggest_repair(refused: Err, call: Call, tool: Tool) -> Err:
    """Add the corrected arguments to a rejection if a mechanical repair makes them valid."""
    text = call.args.decode("utf-8", "replace") if isinstance(call.args, bytes) else call.args
    if not isinstance(text, str) or len(text) > _MAX_TEXT:
        return refused
    for repaired in _repairs(text, tool.name):
        if _is_valid(repaired, get_runnable(tool).schema):
            shown = canonical_json(mask_arguments(repaired, tool.secret_fields)).decode()
            return replace(
                refused, error=f"{refused.error}\n{_hint(shown, is_masked=_has_secret_field(repaired, tool))}"
            )
    return refused


def _hint(shown: str, *, is_masked: bool) -> str:
    if len(shown) > _MAX_SHOWN:
        begins = shorten(shown, _MAX_SHOWN)
        return f"It was not run. If you meant the object that begins like this, send it whole: {begins}"
    secret = f", with your own secret in the place of {MASK}" if is_masked else ""
    return f"It was not run. If you meant this, send exactly it{secret}: {shown}"


def _has_secret_field(arguments: JsonObject, tool: Tool) -> bool:
    return any(name in arguments for name in tool.secret_fields)


def _repairs(text: str, tool: str) -> Iterator[JsonObject]:
    """Yield repairs of common JSON mistakes of models; a truncated object is never completed."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return
    alone = text[start : end + 1]
    tidy = re.sub(_TRAILING_COMMA, r"\1", alone)
    for candidate in (alone, tidy, re.sub(_BARE_KEY, r'\1"\2":', tidy.replace("'", '"'))):
        try:
            yield read_arguments(candidate, tool=tool, empty_ok=False)
        except InvalidToolArgsError:
            continue


def _is_valid(arguments: JsonObject, schema: Schema) -> bool:
    try:
        schema.validator()(arguments)
    except Exception:  # noqa: BLE001  any failure means that the arguments are invalid
        return False
    return True


_MAX_NAME = 60
_MAX_RAW_ARGS = 10_000
_MAX_NUMBER = 1 << 64
_NO_CALL = Call("", "")


class AdmissionContext:
    """The inputs of the admission checks, shared by every call of a batch, which sets them."""

    __slots__ = ("backends", "context", "explain_repairs", "filter", "redactor", "registry", "runner", "share")

    registry: ToolRegistry
    filter: ToolFilter | None
    backends: Backends
    context: ToolContext
    share: int
    """Characters that each call is guaranteed."""
    redactor: Redactor
    explain_repairs: bool
    runner: ToolRunner | None
    """Runs the tools that a handler uses."""

    @property
    def events(self) -> Events:
        """The events of the batch."""
        return self.context.events


AdmissionCheck: TypeAlias = Callable[[Entry, AdmissionContext], Err | None]


def admit(given: object, admission: AdmissionContext) -> AdmittedCall | RefusedCall:
    """Look up the tool of a call, run every check, and validate the arguments, which are parsed only here."""
    started = time.perf_counter()
    call, source = _NO_CALL, "check_is_call"
    entry: Entry | None = None
    arguments: JsonObject | None = None
    known_checksum: str | None = None
    try:
        # As `read_call` does it for a plain call, written out because every call comes here.
        if type(given) is Call and type(given.name) is str and type(given.tool_call_id) is str:
            call, problem = given, None
        else:
            call, problem = read_call(given)
        if problem is not None:
            text = f"Expected Call(tool_call_id, name, args) with text for tool_call_id and name; {problem}."
            return _refuse(
                RefusedCall(call, started, None, None, None), Err("input_invalid", text, by="spindle"), admission
            )
        source = "check_known"
        entry = admission.registry.entry(call.name)
        if entry is None:
            refused = Err("not_available", build_unknown_message(call.name), field="name", by="spindle")
            return _refuse(RefusedCall(call, started, None, None, None, is_unknown=True), refused, admission)
        tool = entry.tool
        # Of a tool without conditions, in a batch without a filter, no check has anything to look at.
        is_free = tool.is_available is None and tool.capabilities is NO_CAPABILITIES
        if not is_free or admission.filter is not None:
            for check in CHECKS:
                source = check.__name__
                refused = check(entry, admission)
                if refused is not None:
                    return _refuse(RefusedCall(call, started, entry, None, None), refused, admission)
        source, runnable = "check_arguments", get_runnable(tool)
        try:
            arguments = copy_plain(call.args) if call.args.__class__ is dict else None
            if arguments is None:
                is_mapping = not isinstance(call.args, (bytes, str)) and isinstance(call.args, Mapping)
                empty_ok = not is_mapping and runnable.schema.can_be_empty()
                arguments = read_arguments(call.args, tool=tool.name, empty_ok=empty_ok)
                if is_mapping:
                    # It may hold values that JSON lacks, which have no checksum; the caller may change it later.
                    known_checksum = checksum(tool.name, arguments)
                    arguments = copy_arguments(arguments)
            value = runnable.schema.copying_validator()(arguments)
        except (InvalidToolArgsError, NotCanonicalError) as error:
            refused = to_err(error, tool=tool.name, by="spindle")
            refused = suggest_repair(refused, call, tool) if admission.explain_repairs else refused
            return _refuse(RefusedCall(call, started, entry, arguments, known_checksum), refused, admission)
    except BaseException as error:  # noqa: BLE001  a check that raises rejects; no await, so no cancellation
        name = to_printable(call.name, _MAX_NAME)
        message = f"an admission check of {name!r} raised {type(error).__name__}"
        admission.events.warn(message, source=source, error=error)
        refused = _build_broken(entry, error) or _build_check_failure(name, error)
        return _refuse(RefusedCall(call, started, entry, arguments, known_checksum), refused, admission)
    ctx = build_call_context(tool, call, arguments, admission)
    return AdmittedCall(
        call, started, entry, arguments, known_checksum, runnable, value, ctx, needs_approval=tool.requires_approval
    )


def build_unknown_message(name: str, hint: str = "") -> str:
    """Return the error for a name that no tool has; `unknown_names.py` adds what the model may have meant."""
    return f"There is no tool {to_printable(name, _MAX_NAME)!r}{f'; {hint}' if hint else '.'}"


def _refuse(state: RefusedCall, refused: Err, admission: AdmissionContext) -> RefusedCall:
    state.finish(HandlerResult(redact_err(refused, admission.redactor)))
    if state.arguments is None:
        _read_refused_arguments(state, admission.redactor.redact)
    return state


def _read_refused_arguments(state: RefusedCall, redact: Callable[[str], str]) -> None:
    """Read the arguments of a call that was refused before they were read, for its record; else keep their text."""
    args, secret_fields = state.call.args, () if state.entry is None else state.entry.tool.secret_fields
    try:
        state.arguments = read_arguments(args, tool=state.call.name, empty_ok=True)
        state.arguments = copy_arguments(state.arguments)
    except InvalidToolArgsError:
        if isinstance(args, (str, bytes)):
            text = args.decode("utf-8", "replace") if isinstance(args, bytes) else to_encodable(args)
            # Text that cannot be parsed may contain part of a secret.
            state.raw_args = MASK if secret_fields else shorten(redact(text), _MAX_RAW_ARGS)
    except Exception:  # noqa: BLE001  a mapping of the caller may raise anything; the call is refused anyway
        return


def build_call_context(tool: Tool, call: Call, arguments: JsonObject, admission: AdmissionContext) -> ToolContext:
    """Build the context of one call from that of its batch."""
    context, cap = admission.context, tool.max_result_chars
    return context.for_call(
        tool_name=tool.name,
        tool_call_id=call.tool_call_id,
        identify=partial(compute_identity, call, arguments, context),
        redactor=admission.redactor,
        result_budget_chars=admission.share if cap is None else min(admission.share, cap),
        deadline=None,
        runner=admission.runner,
    )


def read_call(given: object) -> tuple[Call, str | None]:
    """Return a `Call` with plain text for id and name, and what is wrong with `given`; callers may be untyped."""
    if type(given) is Call and type(given.name) is str and type(given.tool_call_id) is str:
        return given, None
    if issubclass(type(given), Mapping):  # `isinstance` would run code of the object
        return _read_mapping_call(dict(cast("Mapping[object, object]", given)))
    name, call_id = _to_text(_get_attribute(given, "name")), _get_attribute(given, "tool_call_id")
    if not issubclass(type(given), Call):
        call_id = _get_attribute(given, "id") if call_id is None else call_id
        return Call(_keep_id(call_id), name or ""), f"received {to_printable(type(given).__name__, _MAX_NAME)}"
    text_id = _to_text(call_id)
    if name is None or text_id is None:
        return Call(_keep_id(call_id), name or ""), f"{'name' if name is None else 'tool_call_id'} is not text"
    return Call(text_id, name, getattr(given, "args", None)), None


_SPELLINGS = (("tool_call_id", "id"), ("name",), ("args", "arguments"))


def _read_mapping_call(given: dict[object, object]) -> tuple[Call, str | None]:
    """Read a call from a mapping, flat or with OpenAI's nested `function`; ignore other keys."""
    nested = given.get("function")
    inner = dict(cast("Mapping[object, object]", nested)) if issubclass(type(nested), Mapping) else {}
    found: list[object] = []
    twice: str | None = None
    for names in _SPELLINGS:
        parts = (given,) if names[1:] == ("id",) else (given, inner)
        values = [part[name] for part in parts for name in names if name in part]
        found.append(values[0] if values else None)
        if len(values) > 1 and twice is None:
            twice = " or ".join(names)
    call_id, name, args = found
    text_id, text_name = _to_text(call_id), _to_text(name)
    problem = None if twice is None else f"{twice} was given twice"
    if problem is None and (text_id is None or text_name is None):
        problem = f"{'tool_call_id' if text_id is None else 'name'} is missing or not text"
    return Call(_keep_id(call_id), text_name or "", cast("RawArgs", args)), problem


def _keep_id(call_id: object) -> str:
    """Return the id of a call, which may be refused; a number as its digits, so that the caller finds it again."""
    return str(call_id) if type(call_id) is int and abs(call_id) < _MAX_NUMBER else _to_text(call_id) or ""


def _get_attribute(given: object, field: str) -> object:
    try:
        return getattr(given, field)
    except BaseException:  # noqa: BLE001  reading a foreign attribute may raise anything
        return None


def _to_text(value: object) -> str | None:
    is_text = issubclass(type(value), str)  # `isinstance` would run code of the object
    return str.__str__(cast("str", value)) if is_text else None


def check_permitted(entry: Entry, admission: AdmissionContext) -> Err | None:
    """Reject a tool that the caller's filter excludes."""
    refused = None if admission.filter is None else find_refusal(entry, admission.filter)
    return None if refused is None else Err("not_available", refused.message, by="spindle")


def check_available(entry: Entry, admission: AdmissionContext) -> Err | None:
    """Reject a tool whose `is_available` returns false."""
    ask = entry.tool.is_available
    if ask is None or is_available(entry.tool, admission.events):
        return None
    text = f"The tool {entry.tool.name!r} is not available at the moment."
    why = getattr(ask, "why", None)  # an availability check may give a reason, which may quote an upstream server
    text = f"{text} {to_printable(str(why()))}" if callable(why) else text
    return Err("not_available", text, retryable=True, by="spindle")


def check_has_backends(entry: Entry, admission: AdmissionContext) -> Err | None:
    """Reject a tool that requires a capability without a backend."""
    needs = entry.tool.capabilities
    lacking = None if needs is NO_CAPABILITIES else find_missing_backends(needs, admission.backends)
    if not lacking:
        return None
    text = f"The tool {entry.tool.name!r} requires {', '.join(lacking)}, but this executor has no backend for it."
    return Err("not_available", text, by="spindle")


CHECKS: tuple[AdmissionCheck, ...] = (check_permitted, check_available, check_has_backends)
"""The checks between the lookup of the tool and the validation of its arguments, in order."""


async def run_tool_checks(state: AdmittedCall) -> Err | None:
    """Run the tool's own async checks, after all other checks; return the rejection, or `None`."""
    tool = state.entry.tool
    try:
        await run_checks(tool.checks, state.value, state.ctx, tool=tool.name)
    except BaseException as error:  # noqa: BLE001  a check that raises rejects the call
        ending = external_cancellation(error)
        if ending is not None:
            raise ending from None
        if isinstance(error, InvalidToolArgsError):
            return to_err(error, tool=tool.name, secrets=build_redactor(state.arguments, tool.secret_fields))
        state.warn(f"a check of {tool.name!r} raised {type(error).__name__}", source="checks", error=error)
        return _build_check_failure(tool.name, error)
    return None


def _build_broken(entry: Entry | None, error: BaseException) -> Err | None:
    """Reject a tool whose schema cannot be built; `to_definitions` leaves it out for the same reason."""
    broken = entry.definition.find_error() if entry is not None and isinstance(error, Exception) else None
    if broken is None:
        return None
    return Err("not_available", f"This tool cannot be used. {broken}", cause=broken, by="spindle")


def _build_check_failure(tool: str, error: BaseException) -> Err:
    return Err(
        "not_available", f"The tool {tool!r} cannot be used now: a check before it failed.", cause=error, by="spindle"
    )
