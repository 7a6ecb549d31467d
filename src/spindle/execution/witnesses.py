"""Who sees every call of a batch, whatever becomes of it, and changes none: telemetry."""

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Protocol, cast

from spindle.errors import UsageError
from spindle.events import Events
from spindle.execution.batch import Batch, Run
from spindle.execution.interceptors import Interceptor
from spindle.execution.job import Job
from spindle.tools.context import ToolContext

_SDK = "opentelemetry.sdk"
_TELEMETRY = "spindle.telemetry.spans"


class Watch(Protocol):
    """Watches one batch; it is asked to be quick, and what it raises is a warning."""

    def begin(self, job: Job) -> None:
        """Hear that a call which passed the gates runs from now on, in this task."""
        ...

    def end(self, job: Job) -> None:
        """Hear, in the same task, that it runs no longer."""
        ...

    def close(self, jobs: Sequence[Job]) -> None:
        """Hear what became of every call, also of those that never ran; told once, also when the caller leaves."""
        ...


class Witness(Protocol):
    """Stands among an executor's interceptors, but cannot answer a call."""

    def watch(self, context: ToolContext) -> Watch | None:
        """Give a watch for one batch; `None` when there is nobody to tell, and then it costs nothing more."""
        ...


class Unasked:
    """OpenTelemetry, told of every call once the program has set up an SDK; before that, a look into a dict."""

    def __init__(self) -> None:
        self._telemetry: Witness | None = None

    def watch(self, context: ToolContext) -> Watch | None:
        """Give what telemetry gives, as soon as an SDK is loaded."""
        if self._telemetry is None:
            if _SDK not in sys.modules:
                return None
            # By its name, and not before it is needed: it is further out, and knows of libraries that we do not.
            self._telemetry = cast("Witness", import_module(_TELEMETRY).telemetry())
        return self._telemetry.watch(context)


def told_apart(
    given: Iterable[Interceptor | Witness],
) -> tuple[tuple[Interceptor, ...], tuple[Witness, ...]]:
    """Give those who may answer calls, and those who only look on: telemetry too, unless somebody gave their own.

    Raises:
        UsageError: One can do neither.
    """
    if not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
        raise UsageError("interceptors must be a list of async (call, ctx, next)", field="interceptors")
    interceptors: list[Interceptor] = []
    witnesses: list[Witness] = []
    for one in given:
        # By its class: some interceptors, such as test doubles, answer to any name.
        if hasattr(type(one), "watch"):
            witnesses.append(cast("Witness", one))
        elif callable(one):
            interceptors.append(one)
        else:
            kind = type(cast("object", one)).__name__
            raise UsageError(f"an interceptor is an async (call, ctx, next), not a {kind}", field="interceptors")
    if not any(getattr(type(one), "is_telemetry", False) for one in witnesses):
        witnesses.insert(0, Unasked())
    return tuple(interceptors), tuple(witnesses)


def watches_of(witnesses: Sequence[Witness], context: ToolContext) -> tuple[Watch, ...]:
    """Ask each witness whether it wants to see this batch."""
    watches: tuple[Watch, ...] = ()
    for witness in witnesses:
        try:
            watch = witness.watch(context)
        except Exception as error:  # noqa: BLE001  looking on must never end the work
            _warn(context.events, error)
        else:
            if watch is not None:
                watches += (watch,)
    return watches


def watched(run: Run, watches: Sequence[Watch]) -> Run:
    """Run calls under these eyes."""

    async def run_watched(job: Job, batch: Batch) -> None:
        events = batch.context.events
        for watch in watches:
            _safely(events, watch.begin, job)
        try:
            await run(job, batch)
        finally:
            for watch in reversed(watches):
                _safely(events, watch.end, job)

    return run_watched


def close_watches(watches: Sequence[Watch], jobs: Sequence[Job], events: Events) -> None:
    """Tell the watches of a batch what became of its calls."""
    for watch in watches:
        _safely(events, watch.close, jobs)


def _safely(events: Events, tell: Callable[..., None], told: object) -> None:
    try:
        tell(told)
    except Exception as error:  # noqa: BLE001  looking on must never end the work
        _warn(events, error)


def _warn(events: Events, error: Exception) -> None:
    events.warn(f"a witness of calls raised {type(error).__name__}", source="witness", error=error)
