"""Runs batches of calls and returns exactly one outcome for each; open `executor.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.execution.approval import ApprovalAnswer as ApprovalAnswer
    from spindle.execution.approval import ApprovalRequest as ApprovalRequest
    from spindle.execution.approval_text import ApprovalText as ApprovalText
    from spindle.execution.approval_text import render_approval as render_approval
    from spindle.execution.budget import Budget as Budget
    from spindle.execution.call_timing import CallEvent as CallEvent
    from spindle.execution.call_timing import CallSpan as CallSpan
    from spindle.execution.call_timing import CallTiming as CallTiming
    from spindle.execution.executor import Executor as Executor
    from spindle.execution.flow_explanation import ExplainedValue as ExplainedValue
    from spindle.execution.flow_explanation import FlowExplanation as FlowExplanation
    from spindle.execution.flow_explanation import explain_flow as explain_flow
    from spindle.execution.flow_replay import FlowReplay as FlowReplay
    from spindle.execution.flow_replay import FlowSource as FlowSource
    from spindle.execution.flow_replay import ReplayedCall as ReplayedCall
    from spindle.execution.flow_replay import replay_flow as replay_flow
    from spindle.execution.flow_session import FlowStep as FlowStep
    from spindle.execution.flow_session import SessionTrace as SessionTrace
    from spindle.execution.flow_session import trace_session as trace_session
    from spindle.execution.local_transport import LocalTransport as LocalTransport
    from spindle.execution.local_transport import ProcessTransport as ProcessTransport
    from spindle.execution.options import ExecutorOptions as ExecutorOptions
    from spindle.execution.reducers import ReduceInfo as ReduceInfo
    from spindle.execution.reducers import Reducer as Reducer
    from spindle.execution.reducers import ReducerRegistry as ReducerRegistry
    from spindle.execution.reducers import safe_reduce as safe_reduce
    from spindle.execution.settings import Retries as Retries
    from spindle.execution.state_key import StateKey as StateKey
    from spindle.execution.ticket_requests import list_approvals as list_approvals
    from spindle.execution.ticket_settings import TicketSettings as TicketSettings
    from spindle.execution.tickets import Approval as Approval
    from spindle.execution.tickets import TicketOffice as TicketOffice
    from spindle.execution.tickets import open_office as open_office
    from spindle.execution.transport import CancelSignal as CancelSignal
    from spindle.execution.transport import Request as Request
    from spindle.execution.transport import Transport as Transport
else:
    __getattr__, __dir__ = open_door(__name__)
