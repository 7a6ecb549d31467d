"""Runs batches of calls and returns exactly one outcome for each; open `executor.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.execution.approval import ApprovalRequest as ApprovalRequest
    from spindle.execution.budget import Budget as Budget
    from spindle.execution.executor import Executor as Executor
    from spindle.execution.invoke import Retries as Retries
    from spindle.execution.reducers import ReduceInfo as ReduceInfo
    from spindle.execution.reducers import Reducer as Reducer
    from spindle.execution.reducers import ReducerRegistry as ReducerRegistry
    from spindle.execution.reducers import safe_reduce as safe_reduce
    from spindle.execution.transport import Request as Request
    from spindle.execution.transport import Transport as Transport
else:
    __getattr__, __dir__ = open_door(__name__)
