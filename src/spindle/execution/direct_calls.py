"""Direct calls: `tool.executor(ctx)` in a context of an executor.

They take the path of a batch's calls, without what belongs to batches and to results for a model: shared results,
locks, slots, cache, retries, reducers and budget. The handler's value is returned as it is; a failure raises an error.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import TYPE_CHECKING

from spindle.calls import Call, Err, ErrCode, Ok, RawArgs
from spindle.errors import (
    ApprovalDeniedError,
    ApprovalRequiredError,
    CallError,
    CapabilityError,
    ToolDownstreamError,
    ToolNotAvailableError,
    TurnAbortedError,
)
from spindle.execution import call_path, optional
from spindle.execution.admission import CHECKS, AdmissionContext, build_call_context, check_has_backends
from spindle.execution.batch import Batch, Run
from spindle.execution.call_state import AdmittedCall
from spindle.execution.cancellation import external_cancellation, reraise
from spindle.execution.failures import to_err
from spindle.execution.results import HandlerResult, normalize, normalize_off_loop
from spindle.execution.settings import Engine
from spindle.text import new_id, shorten
from spindle.tools.arguments import build_redactor
from spindle.tools.declaration import Tool, get_runnable
from spindle.tools.entry import Entry, build_entry
from spindle.tools.invocation import build_downstream_error, build_timeout_error, run_checks, take_arguments

if TYPE_CHECKING:
    from spindle.execution.call_path import Layer, Needs

_MAX_RECORDED_CHARS = 2_000
_RECORDED_TYPES = {str, bytes, bool, int, float, dict, list, tuple}


@dataclass(slots=True, eq=False)
class DirectCall(AdmittedCall):
    """A call whose caller receives the handler's own value."""

    returned: object = field(default=None, init=False)
    has_returned: bool = field(default=False, init=False)
    raised: BaseException | None = field(default=None, init=False)
    """What the handler raised, or one of the tool's checks before it."""
    inner: HandlerResult | None = field(default=None, init=False)
    """The result inside the interceptors; another final result replaces the handler's value."""

    def get_whole_result(self) -> Ok | Err | None:
        """Return the handler's value as a result; `None` if it cannot be converted to one."""
        if not self.has_returned:
            return None if self.handled is None else self.handled.result
        result = normalize(self.returned, tool=self.entry.tool.name, output=self.entry.tool.output).result
        return result if isinstance(result, Ok) or isinstance(self.returned, Err) else None


def admit_direct(tool: Tool, args: RawArgs, admission: AdmissionContext) -> DirectCall:
    """Check whether the tool may be used, and validate the arguments.

    Raises:
        ToolNotAvailableError: The filter or the tool's availability check refuses the call.
        CapabilityError: The tool declares a capability that has no backend.
        InvalidToolArgsError: The arguments are invalid.
        NotCanonicalError: The arguments cannot be serialized as canonical JSON.
    """
    found = admission.registry.entry(tool.name)
    entry = found if found is not None and found.tool is tool else build_entry(tool)
    _check(entry, admission)
    runnable, parent = get_runnable(tool), admission.context.tool_call_id
    arguments, known = take_arguments(args, tool=tool.name, empty_ok=runnable.schema.can_be_empty())
    value = runnable.schema.copying_validator()(arguments)
    # A new id each time: the journal must not answer a second equal call from the record of the first.
    call = Call(new_id() if parent is None else f"{parent}/{token_hex(6)}", tool.name, args)
    ctx = build_call_context(tool, call, arguments, admission)
    now, needs_approval = time.perf_counter(), tool.requires_approval
    return DirectCall(call, now, entry, arguments, known, runnable, value, ctx, needs_approval=needs_approval)


def _check(entry: Entry, admission: AdmissionContext) -> None:
    name = entry.tool.name
    for check in CHECKS:
        try:
            refused = check(entry, admission)
        except Exception as error:
            raise ToolNotAvailableError(
                f"Tool {name!r} cannot be used: a check before it failed.", tool=name
            ) from error
        if refused is not None:
            kind = CapabilityError if check is check_has_backends else ToolNotAvailableError
            raise kind(refused.error, tool=name)


def record_times(engine: Engine, run: Run, _: "Needs") -> Run:
    """Record when the call began and ended, for the journal."""
    if not engine.has_journal:
        return run

    async def run_and_record(state: AdmittedCall, batch: Batch) -> HandlerResult:
        if state.trace is None:
            return await run(state, batch)
        state.trace.began = batch.clock()
        handled = await run(state, batch)
        state.trace.answered = batch.clock()
        return handled

    return run_and_record


def check_directly(engine: Engine, run: Run, needs: "Needs") -> Run:  # noqa: ARG001
    """Run the tool's own checks; what they raise is raised unchanged."""
    if "checks" not in needs:
        return run

    async def run_checked(state: AdmittedCall, batch: Batch) -> HandlerResult:
        tool = state.entry.tool
        try:
            await run_checks(tool.checks, state.value, state.ctx, tool=tool.name)
        except BaseException as error:  # noqa: BLE001  see above
            return await _keep_exception(state, error)
        return await run(state, batch)

    return run_checked


def keep_inner_result(engine: Engine, run: Run, _: "Needs") -> Run:
    """Keep the result inside the interceptors, which may replace it."""
    if not engine.interceptors:
        return run

    async def run_and_keep(state: AdmittedCall, batch: Batch) -> HandlerResult:
        handled = await run(state, batch)
        if isinstance(state, DirectCall):
            state.inner = handled
        return handled

    return run_and_keep


LAYERS: "tuple[Layer, ...]" = (
    record_times,
    call_path.notify_observers,
    call_path.store_result,
    call_path.intercept,
    keep_inner_result,
    check_directly,
    call_path.approve,
    call_path.write_intent,
    call_path.redact,
    call_path.open_capabilities,
    call_path.preview_dry_run,
    call_path.emit_events,
)
"""The layers around the handler of a direct call, outermost first."""


def build_direct_path(engine: Engine) -> Run:
    """Build the function that runs one direct call and stores its result; raises only on external cancellation."""
    return call_path.choose_path(engine, LAYERS, _build_attempt(engine))


def _build_attempt(engine: Engine) -> Run:
    transport = engine.transport

    async def attempt(state: AdmittedCall, batch: Batch) -> HandlerResult:
        runnable, trace = state.runnable, state.trace
        state.attempts += 1
        if trace is not None:
            trace.started = batch.clock()
        try:
            if transport is not None:
                value: object = await optional.execute_remotely(transport, state)
                if isinstance(value, Err):
                    return normalize(value, tool=runnable.name, output=state.entry.tool.output)
            elif runnable.is_async:
                value = await runnable.handler(state.value, state.ctx, runnable.meta)
            else:
                value = await engine.local.run(state)
        except BaseException as error:  # noqa: BLE001  every exception of a tool becomes its result
            return await _keep_exception(state, error)
        finally:
            if trace is not None:
                trace.ended = batch.clock()
        if isinstance(state, DirectCall):
            state.returned, state.has_returned = value, True
        return await _summarize(value, state, is_recorded=batch.journal is not None)

    return attempt


async def _keep_exception(state: AdmittedCall, error: BaseException) -> HandlerResult:
    ending = external_cancellation(error)
    if ending is not None:
        await reraise(ending)
    if isinstance(state, DirectCall):
        state.raised = error
    tool = state.entry.tool
    secrets = build_redactor(state.arguments, tool.secret_fields)
    return HandlerResult(to_err(error, tool=tool.name, expose=tool.expose_errors, secrets=secrets))


async def _summarize(value: object, state: AdmittedCall, *, is_recorded: bool) -> HandlerResult:
    """Return what events and the journal show of a value, which is not read further than that."""
    tool = state.entry.tool
    if isinstance(value, (Ok, Err)):
        result = normalize(value, tool=tool.name, output=tool.output).result
    elif is_recorded and type(value) in _RECORDED_TYPES:
        result = (await normalize_off_loop(value, tool=tool.name, output=tool.output)).result
    else:
        return HandlerResult(Ok(trusted=tool.trusted, label=tool.output))
    if isinstance(result, Err):
        # Any value may be returned to the caller, also one that could not be shown to a model.
        return HandlerResult(result if isinstance(value, Err) else Ok(trusted=tool.trusted, label=tool.output))
    text = shorten(result.value, _MAX_RECORDED_CHARS)
    return HandlerResult(replace(result, value=text, structured=None, media=(), artifact=None, wire=None))


def get_direct_result(state: DirectCall, engine: Engine) -> object:
    """Return the handler's value, or the text of what answered instead of it: a dry run or an interceptor.

    Raises:
        CallError: The call was refused or failed.
        TurnAbortedError: The turn was aborted.
        BaseException: What a check of the tool raised.
    """
    name, handled = state.entry.tool.name, state.handled
    result = Err("execution_failed", "") if handled is None else handled.result
    if not engine.interceptors or handled is state.inner:
        if state.has_returned and (isinstance(result, Ok) or result.code not in _STOPPED):
            return state.returned
        if state.raised is not None and (isinstance(result, Err) and result.code not in _STOPPED):
            if not state.attempts:
                raise state.raised
            raise build_downstream_error(name, state.raised) from state.raised
    if isinstance(result, Ok):
        return result.value
    raise _build_error(result, state, engine) from (result.cause if isinstance(result.cause, BaseException) else None)


_STOPPED = {"timed_out", "cancelled"}
_ERRORS: Mapping[ErrCode, type[CallError]] = {
    "denied": ApprovalDeniedError,
    "execution_failed": ToolDownstreamError,
    "stale_write": ToolDownstreamError,
    "not_available": ToolNotAvailableError,
    "interrupted": ToolNotAvailableError,
}


def _build_error(err: Err, state: DirectCall, engine: Engine) -> CallError | TurnAbortedError:
    tool = state.entry.tool
    if err.code == "timed_out":
        return build_timeout_error(tool.name, tool.timeout_seconds or engine.timeout_seconds)
    if err.code == "cancelled":
        return TurnAbortedError(f"The call of {tool.name!r} was cancelled: the turn was aborted.", tool=tool.name)
    if err.code == "needs_approval":
        return ApprovalRequiredError(err.error, tool=tool.name, field=err.field, ticket=err.ticket)
    return _ERRORS.get(err.code, CallError)(err.error, tool=tool.name, field=err.field)
