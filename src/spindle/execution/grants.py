"""What a call is granted before its handler runs: a person's approval, and the handles of its capabilities."""

from spindle.calls import Err
from spindle.capabilities.declare import CallScope
from spindle.capabilities.resolve import close_handles, open_handles
from spindle.execution import optional
from spindle.execution.batch import Batch, Run
from spindle.execution.call_state import AdmittedCall
from spindle.execution.results import HandlerResult
from spindle.execution.settings import Engine
from spindle.tools.context import get_required_reasons


async def request_if_needed(state: AdmittedCall, batch: Batch) -> HandlerResult | None:
    """Ask for approval if anything requires it; return the rejection, or `None` if the call may run."""
    required = get_required_reasons(state.ctx)
    if not state.needs_approval and not required:
        return None
    state.needs_approval, state.reasons = True, tuple(dict.fromkeys((*state.reasons, *required)))
    tickets = batch.engine.tickets
    if tickets is not None:
        return await optional.request_recorded_approval(state, tickets, batch)
    with batch.stop_clock(state):
        return await optional.request_approval(state, batch.approve)


def open_capabilities(engine: Engine, run: Run, needs: frozenset[str]) -> Run:
    """Open the capability handles that the tool declared, and close them."""
    if "capabilities" not in needs:
        return run

    async def run_with_handles(state: AdmittedCall, batch: Batch) -> HandlerResult:
        tool, ctx = state.entry.tool, state.ctx
        scope = CallScope(
            tool=tool.name,
            session_id=ctx.session_id,
            turn_id=ctx.turn_id,
            toolset=tool.toolset,
            spool=batch.spool,
            events=ctx.events,
            attachments=tuple(batch.attachments),
            redactor=engine.redactor,
        )
        try:
            opened = open_handles(tool.capabilities, engine.backends, scope)
        except Exception as error:  # noqa: BLE001  a backend that raises rejects the call
            text = f"The tool {tool.name!r} cannot be used now: its capabilities could not be opened."
            return HandlerResult(Err("not_available", text, cause=error, by="spindle"))
        ctx.grant(opened)
        if tool.capabilities.secrets is not None:
            ctx.events.redact_with(engine.redactor)
        try:
            return await run(state, batch)
        finally:
            await close_handles(opened)

    return run_with_handles
