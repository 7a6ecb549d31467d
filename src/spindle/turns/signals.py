"""The life of a dispatch: the loop that it is bound to, and the ack, nack or abort that ends it; the first counts."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from threading import Event as ThreadEvent
from typing import Any, Generic, Protocol, TypeVar, cast

from spindle.calls import Call, CallOutcome
from spindle.concurrency import spawn_background
from spindle.errors import AlreadySignalledError, InvalidContextError, NackError, UsageError
from spindle.events import Events
from spindle.json_types import JsonValue
from spindle.tools.context import CallGateOpener, ToolContext, ToolRunner


class Signals:
    """The ack or nack of one dispatch, and the callbacks for the ack."""

    def __init__(self) -> None:
        self._acked = False
        self._nack_error: BaseException | None = None
        self._on_ack: list[Callable[[], object]] = []

    @property
    def is_acked(self) -> bool:
        """Whether the dispatch was acked."""
        return self._acked

    @property
    def is_signalled(self) -> bool:
        """Whether the dispatch was acked or nacked."""
        return self._acked or self._nack_error is not None

    @property
    def nack_error(self) -> BaseException | None:
        """The error of the nack, or `None`."""
        return self._nack_error

    def ack(self) -> None:
        """Ack the dispatch and run the callbacks in order; a failing callback does not stop the others.

        Raises:
            AlreadySignalledError: The dispatch was already acked or nacked.
        """
        self._check_unsignalled()
        self._acked = True
        # Removed first: no callback runs twice, and their references are released.
        handlers, self._on_ack = self._on_ack, []
        for handler in handlers:
            with suppress(Exception):
                handler()

    def nack(self, err: BaseException | str | None = None) -> None:
        """Nack the dispatch; a text, or nothing, becomes a `NackError`.

        Raises:
            AlreadySignalledError: The dispatch was already acked or nacked.
        """
        self._check_unsignalled()
        if not isinstance(err, BaseException):
            err = NackError("The dispatch was nacked without a reason." if err is None else str(err))
        self._nack_error = err
        self._on_ack = []

    def on_ack(self, fn: Callable[[], object]) -> Callable[[], None]:
        """Register a callback for the ack and return a function that removes it.

        Raises:
            UsageError: `fn` is not callable.
        """
        if not callable(cast("object", fn)):
            raise UsageError(f"on_ack expects a function without arguments, got {type(fn).__name__}", field="fn")

        def mine() -> object:
            return fn()

        self._on_ack.append(mine)

        def forget() -> None:
            with suppress(ValueError):
                self._on_ack.remove(mine)

        return forget

    def _check_unsignalled(self) -> None:
        if self.is_signalled:
            word = "acked" if self._acked else "nacked"
            raise AlreadySignalledError(f"The dispatch was already {word}; check is_signalled first.")


class AbortSignal:
    """A flag that is set once and then calls its listeners; a later listener is called immediately."""

    def __init__(self, *listeners: Callable[[], object], parent: "AbortSignal | None" = None) -> None:
        self._aborted = False
        self._listeners = list(listeners)
        if parent is not None:
            parent._listeners.append(self.abort)
            if parent._aborted:
                self.abort()

    @property
    def aborted(self) -> bool:
        """Whether the signal was set."""
        return self._aborted

    def abort(self) -> None:
        """Set the signal and call the listeners; a second call does nothing."""
        if self._aborted:
            return
        self._aborted = True
        for listener in list(self._listeners):
            with suppress(Exception):
                listener()

    def on_abort(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Register a listener and return a function that removes it; call it now if the signal is set."""
        self._listeners.append(listener)
        if self._aborted:
            listener()

        def forget() -> None:
            with suppress(ValueError):
                self._listeners.remove(listener)

        return forget


class CancelEvent(Protocol):
    """A signal that ends a turn, such as an `anyio.Event` or an `asyncio.Event`."""

    def wait(self) -> Awaitable[object]:
        """Wait until the turn is to be aborted."""
        ...


def is_cancel_event(value: object) -> bool:
    """Return whether a value has a `wait()` that does not block the event loop, as far as can be seen."""
    return callable(getattr(value, "wait", None)) and not isinstance(value, ThreadEvent)


@asynccontextmanager
async def abort_on(cancel: CancelEvent, abort: Callable[[], None], events: Events) -> AsyncGenerator[None, None]:
    """Call `abort` when `cancel.wait()` ends while the block runs; a signal that fails aborts, too."""
    is_set = getattr(cancel, "is_set", None)
    if callable(is_set) and is_set() is True:
        abort()  # at once: a waiting task would start only after the turn
    has_ended = False

    async def watch() -> None:
        try:
            await cancel.wait()
        except Exception as error:  # noqa: BLE001  fail closed: nothing else could stop the turn
            events.warn("cancel.wait() failed; the turn is aborted", source="cancel", error=error)
        finally:
            if not has_ended:
                abort()

    watcher = spawn_background(watch, name="spindle-cancel")
    try:
        yield
    finally:
        has_ended = True
        watcher.cancel()


class LoopRunner(ToolRunner, Protocol):
    """Port that runs the calls of the contexts of one model loop."""

    def tool_context(self) -> ToolContext:
        """Return the context of the dispatch for handlers."""
        ...

    async def execute(self, calls: Iterable[Call | Mapping[str, JsonValue]]) -> list[CallOutcome]:
        """Run calls and store a record of each."""
        ...


Context = TypeVar("Context")
Progress = TypeVar("Progress")


class TurnWatch(Generic[Context, Progress]):
    """Follows the steps of a turn; this one does nothing, and `StoryWriter` writes them down."""

    def begin_iteration(self, ctx: Context, calls: Sequence[Progress] | None) -> None:
        """Begin an iteration; that of a resumed turn begins with the calls that its model has requested."""

    def add_calls(self, calls: Sequence[object]) -> None:
        """Add the calls that the model has requested."""

    def add_thought(self, id: str, text: str) -> None:
        """Set what the model has thought so far."""

    async def end_iteration(self, ctx: Context) -> None:
        """End an iteration."""


class LoopBound:
    """A context that can run calls for as long as a model loop runs it."""

    watch: TurnWatch[Any, Any] = TurnWatch()
    """What follows the steps of the turn."""

    bound_loop: LoopRunner | None = None
    """The loop that runs this context, if there is one."""
    gate_opener: CallGateOpener | None = None
    """Opens the gates of calls, if it is not done by waiting in this process."""

    def bind_loop(self, loop: LoopRunner | None) -> None:
        """Set the loop that runs this context; `None` when it has ended."""
        self.bound_loop = loop

    async def execute(self, calls: Iterable[Call | Mapping[str, JsonValue]]) -> list[CallOutcome]:
        """Run calls through the loop's executor, store a record of each, and return the outcomes in input order.

        Raises:
            InvalidContextError: No loop runs this context.
            ArtifactIdCollisionError: A retrievable of the turn has the id of a call.
            LimitError: A call was repeated too often.
        """
        if self.bound_loop is None:
            raise InvalidContextError("No loop runs this context. Use Executor.execute_parallel instead.", field="ctx")
        return await self.bound_loop.execute(calls)
