"""The step that asks a person about a call, if the tool, the flow policy, an interceptor or a check requires it."""

from spindle.execution import optional
from spindle.execution.batch import Batch
from spindle.execution.call_state import AdmittedCall
from spindle.execution.results import HandlerResult
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
