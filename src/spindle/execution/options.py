"""The settings of `Executor` that `TurnRunner` takes as well, as a type for editors and type checkers."""

from collections.abc import Sequence
from typing import Literal, TypedDict

from spindle.capabilities.resolve import Backends
from spindle.execution.approval import Approve
from spindle.execution.budget import Budget
from spindle.execution.interceptors import CallObserver, Interceptor
from spindle.execution.reducers import ReducerRegistry
from spindle.execution.settings import Retries
from spindle.execution.ticket_settings import StateKeys
from spindle.execution.transport import Transport
from spindle.trust.flow.policy import FlowPolicy
from spindle.trust.labels import SinkPolicy


class ExecutorOptions(TypedDict, total=False):
    """Settings that `TurnRunner` passes to its executor; `Executor` describes them."""

    backends: Backends | None
    reducers: ReducerRegistry | None
    budget: Budget | None
    transport: Transport | None
    concurrency: int
    batch_timeout_seconds: float | None
    interceptors: Sequence[Interceptor | CallObserver]
    approve: Approve | None
    sinks: SinkPolicy | None
    flow: FlowPolicy | SinkPolicy | None
    retries: Retries | None
    repair: Literal["explain"] | None
    state_key: StateKeys | None
    ticket_ttl_seconds: float
