"""The settings that executors share, and the checks of those of executors and turn runners, before any call runs."""

import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from spindle.capabilities.resolve import Backends
from spindle.capabilities.secrets.secret import Redactor
from spindle.errors import UsageError
from spindle.execution import optional
from spindle.execution.call_state import AdmittedCall, Slots
from spindle.execution.cancellation import AbandonedTasks
from spindle.execution.interceptors import TELEMETRY_SDK, AutoTelemetry
from spindle.json_types import is_callback, is_list_or_tuple
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from spindle.execution.cache import ResultCache
    from spindle.execution.flow import FlowGuard
    from spindle.execution.interceptors import CallObserver, Interceptor
    from spindle.execution.resource_locks import ResourceLocks
    from spindle.execution.ticket_settings import TicketSettings
    from spindle.execution.transport import SyncHandlerRunner, Transport

_MAX_DOUBLINGS = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Retries:
    """How often an idempotent tool is retried, and the wait between attempts."""

    times: int = 2
    first_wait_seconds: float = 0.1
    max_wait_seconds: float = 5.0

    def wait_seconds(self, attempt: int) -> float:
        """Return the wait after an attempt, counted from 1; it doubles each time."""
        return min(self.first_wait_seconds * 2 ** min(attempt - 1, _MAX_DOUBLINGS), self.max_wait_seconds)


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The parts that executors for different registries share."""

    backends: Backends
    interceptors: tuple["Interceptor", ...]
    observers: tuple["CallObserver", ...]
    retries: Retries
    transport: "Transport | None"
    concurrency: int
    timeout_seconds: float | None
    batch_timeout_seconds: float | None
    has_journal: bool
    slots: Slots
    redactor: Redactor
    tickets: "TicketSettings | None" = None
    """`None` if calls cannot wait for approval in a journal."""
    flow: "FlowGuard | None" = None
    """Judges calls by where their values come from."""
    abandoned_tasks: AbandonedTasks = field(default_factory=AbandonedTasks)

    @cached_property
    def _has_own_observers(self) -> bool:
        return any(not isinstance(each, AutoTelemetry) for each in self.observers)

    @property
    def is_observed(self) -> bool:
        """Whether an observer may want to see a batch; that for telemetry does as soon as its SDK is imported."""
        return self._has_own_observers or TELEMETRY_SDK in sys.modules

    def get_timeout(self, state: AdmittedCall) -> float:
        """Return how many seconds a call may take."""
        return state.entry.tool.timeout_seconds or self.timeout_seconds or math.inf

    def is_remembered(self, tool: Tool, age_seconds: float) -> bool:
        """Return whether the transport, if there is one, still knows a call that was started so long ago."""
        return self.transport is not None and optional.is_remembered(self.transport, tool, age_seconds)

    @cached_property
    def cache(self) -> "ResultCache":
        """The cache of results."""
        return optional.ResultCache(time.monotonic)

    @cached_property
    def locks(self) -> "ResourceLocks":
        """The locks on resources."""
        return optional.ResourceLocks()

    @cached_property
    def local(self) -> "SyncHandlerRunner":
        """The threads and processes of sync handlers."""
        # The slots limit the threads; a handler that waits for a nested batch lends its slot and keeps its thread.
        return optional.SyncHandlerRunner(self.concurrency, max_threads=sys.maxsize)


DAY_SECONDS = 86_400
Problems: TypeAlias = dict[str, str]
"""Invalid settings by name, each with what was expected."""

_PORTS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "backends": (("network", "files"), "Backends(…), such as Backends.local(root)"),
    "reducers": (("get",), "a ReducerRegistry"),
    "budget": (("total",), "Budget(chars=…)"),
    "spool": (("write", "read", "delete"), "a Spool, such as Spool.files(path)"),
    "journal": (("begin", "finish"), "a Journal, such as Journal.sqlite(path)"),
    "transport": (("execute",), "a transport, which has execute(request, cancel)"),
    "approve": ((), "a function of an ApprovalRequest, sync or async, but not a class or a generator"),
    "sinks": (("judge",), "a SinkPolicy"),
    "flow": (("judge",), "a FlowPolicy"),
    "retries": (("wait_seconds",), "Retries(…)"),
    "records": (("store", "load"), "Records, such as Records.sqlite(path)"),
    "executor": (("with_registry",), "an Executor"),
}
"""The methods that each part must have, and what to pass instead."""


def check_executor_settings(
    registry: object, concurrency: object, timeout_seconds: object, batch_timeout_seconds: object, repair: object
) -> None:
    """Check the plain settings of an executor.

    Raises:
        UsageError: Names the first invalid setting.
    """
    if not ToolRegistry.is_tool_registry(registry):
        raise UsageError(f"registry must be a ToolRegistry, got {type(registry).__name__}", field="registry")
    if not _is_count(concurrency):
        raise UsageError(f"concurrency must be a whole number of at least 1, got {concurrency!r}", field="concurrency")
    for name, value in (("timeout_seconds", timeout_seconds), ("batch_timeout_seconds", batch_timeout_seconds)):
        if value is not None and not (_is_finite(value) and value > 0):
            raise UsageError(f"{name} must be a number above 0, or None for no limit; got {value!r}", field=name)
    if repair not in {None, "explain"}:
        raise UsageError(f"repair must be None or 'explain', got {repair!r}", field="repair")


def check_executor_parts(**parts: object) -> None:
    """Check that each part has the methods of its port; `None` means that there is no such part.

    Raises:
        UsageError: Names the first invalid part.
    """
    for name, expected in find_invalid_parts(**parts).items():
        raise UsageError(f"{name} must be {expected}, or None; got {type(parts[name]).__name__}", field=name)


def find_invalid_parts(**parts: object) -> Problems:
    """Return the parts that lack a method of their port; `None` means that there is no such part."""
    return {name: _PORTS[name][1] for name, part in parts.items() if part is not None and not _is_part(name, part)}


def _is_part(name: str, part: object) -> bool:
    return is_callback(part) if name == "approve" else all(hasattr(part, method) for method in _PORTS[name][0])


def find_invalid_callables(executor_callback: object, pipelines: Mapping[str, object]) -> Problems:
    """Return the callback if it is not callable, and pipelines that are not lists of middleware."""
    problems: Problems = {}
    if not is_callback(executor_callback):
        problems["executor_callback"] = "async (ctx) or async (ctx, helpers)"
    for name, layers in pipelines.items():
        if not is_list_or_tuple(layers) or not all(map(is_callback, layers)):
            problems[name] = "a list of async (ctx, next)"
    return problems


def find_invalid_limits(**limits: object) -> Problems:
    """Return limits that would never end a turn, or would end it before it begins."""
    return {name: _LIMITS[name][1] for name, value in limits.items() if not _LIMITS[name][0](value)}


def raise_if_invalid(problems: Problems, *, what: str, error: type[UsageError]) -> None:
    """Raise `error` naming every invalid setting, if there is one."""
    if problems:
        listed = "; ".join(f"{name} must be {expected}" for name, expected in problems.items())
        raise error(f"Invalid {what} settings: {listed}.", field=next(iter(problems)))


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 1


def _is_finite(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


_LIMITS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "max_iterations": (lambda v: v is None or _is_count(v), "a whole number of at least 1, or None for no limit"),
    "max_repeats": (lambda v: v is None or _is_count(v), "a whole number of at least 1, or None for no limit"),
    "timeout_seconds": (lambda v: v is None or (_is_finite(v) and v > 0), "a number above 0, or None for no limit"),
    "abort_grace_seconds": (lambda v: _is_finite(v) and v >= 0, "a number of at least 0"),
}
