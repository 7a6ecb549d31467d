"""A transport that runs each request in a forked process, which is killed on cancellation."""

import pickle
from dataclasses import replace
from typing import Any

import anyio

from spindle.calls import Err, Ok
from spindle.capabilities.resolve import NO_BACKENDS, Backends
from spindle.errors import CallError
from spindle.execution.backends.child import ChildLink
from spindle.execution.backends.processes import ProcessRunner
from spindle.execution.results import to_err
from spindle.execution.transport import CancelSignal, LocalTransport, Request
from spindle.tools.registry import ToolRegistry


class ProcessTransport:
    """A transport that forks a process per request, also for async tools; cancelling the request kills it.

    Results must pickle: text and JSON do, media and artifacts with open resources do not.
    """

    def __init__(self, registry: ToolRegistry, *, backends: Backends = NO_BACKENDS, max_processes: int = 8) -> None:
        self._local = LocalTransport(registry, backends=backends)
        self._lane = ProcessRunner(max_processes)

    async def execute(self, request: Request, cancel: CancelSignal) -> Ok | Err:
        """Run the request in its own process and return its result."""

        def body(_link: ChildLink) -> Ok | Err:
            return _drop_unpicklable_cause(anyio.run(self._local.execute, request, cancel))

        try:
            return await self._lane.run(body)
        except CallError as error:
            return to_err(error, tool=request.tool)


def _drop_unpicklable_cause(result: Ok | Err) -> Ok | Err:
    """Drop a cause that does not pickle; the error text already describes it."""
    if isinstance(result, Err) and not _is_picklable(result.cause):
        return replace(result, cause=None)
    return result


def _is_picklable(value: Any) -> bool:
    try:
        pickle.loads(pickle.dumps(value))  # noqa: S301  bytes pickled on this line
    except Exception:  # noqa: BLE001  pickling may raise anything
        return False
    return True
