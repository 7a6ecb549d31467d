"""The ack, nack and abort signals that end a dispatch; the first signal counts."""

from collections.abc import Callable
from contextlib import suppress
from typing import cast

from spindle.errors import AlreadySignalledError, NackError, UsageError


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

    def nack(self, error: BaseException | str | None = None) -> None:
        """Nack the dispatch; a text, or nothing, becomes a `NackError`.

        Raises:
            AlreadySignalledError: The dispatch was already acked or nacked.
        """
        self._check_unsignalled()
        if not isinstance(error, BaseException):
            error = NackError("The dispatch was nacked without a reason." if error is None else str(error))
        self._nack_error = error
        self._on_ack = []

    def on_ack(self, handler: Callable[[], object]) -> Callable[[], None]:
        """Register a callback for the ack and return a function that removes it.

        Raises:
            UsageError: `handler` is not callable.
        """
        if not callable(cast("object", handler)):
            raise UsageError(f"on_ack expects a function without arguments, got {type(handler).__name__}", field="fn")

        def mine() -> object:
            return handler()

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

    def __init__(self, parent: "AbortSignal | None" = None) -> None:
        self._aborted = False
        self._listeners: list[Callable[[], object]] = []
        if parent is not None:
            parent.on_abort(self.abort)

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
