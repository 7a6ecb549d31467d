"""Parts that not every executor needs; each one loads its module on first use, like the names of a package's door."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.execution.approval import dry_run_preview as dry_run_preview
    from spindle.execution.approval import request_approval as request_approval
    from spindle.execution.cache import ResultCache as ResultCache
    from spindle.execution.fit_results import BudgetFit as BudgetFit
    from spindle.execution.fit_results import read_returned_artifact as read_returned_artifact
    from spindle.execution.fit_results import redact_artifact as redact_artifact
    from spindle.execution.flow import FlowGuard as FlowGuard
    from spindle.execution.flow import choose_policy as choose_policy
    from spindle.execution.flow import join_input_label as join_input_label
    from spindle.execution.interceptors import run_interceptors as run_interceptors
    from spindle.execution.journal_media import KEEP_SECONDS as KEEP_SECONDS
    from spindle.execution.journaling import BatchJournal as BatchJournal
    from spindle.execution.reducers import reduce_results as reduce_results
    from spindle.execution.resource_locks import ResourceLocks as ResourceLocks
    from spindle.execution.resume import ResumptionParts as ResumptionParts
    from spindle.execution.resume import resume_ticket as resume_ticket
    from spindle.execution.ticket_requests import request_recorded_approval as request_recorded_approval
    from spindle.execution.ticket_settings import TicketSettings as TicketSettings
    from spindle.execution.ticket_settings import check_ticket_settings as check_ticket_settings
    from spindle.execution.transport import SyncHandlerRunner as SyncHandlerRunner
    from spindle.execution.transport import accepts as accepts
    from spindle.execution.transport import execute_remotely as execute_remotely
    from spindle.execution.transport import is_remembered as is_remembered
    from spindle.execution.unknown_names import suggest_names as suggest_names
else:
    __getattr__, __dir__ = open_door(__name__)
