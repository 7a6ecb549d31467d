"""How a dispatch ends: acknowledged, refused or aborted; the first word counts."""

from collections.abc import Callable
from contextlib import suppress
from typing import cast

from spindle.errors import AlreadySignalledError, NackError, UsageError


class Signals:
    """The end of one dispatch, and who wants to hear of it."""

    def __init__(self) -> None:
        self._acked = False
        self._nack_error: BaseException | None = None
        self._on_ack: list[Callable[[], object]] = []

    @property
    def is_acked(self) -> bool:
        """Whether it was acknowledged."""
        return self._acked

    @property
    def is_signalled(self) -> bool:
        """Whether it was acknowledged or refused."""
        return self._acked or self._nack_error is not None

    @property
    def nack_error(self) -> BaseException | None:
        """Why it was refused."""
        return self._nack_error

    def ack(self) -> None:
        """Acknowledge; handlers run now, in order, and one that fails does not stop the others.

        Raises:
            AlreadySignalledError: It was signalled before.
        """
        self._refuse_second()
        self._acked = True
        # Taken off as they are told: nobody is told twice, and what they hold is let go with them.
        handlers, self._on_ack = self._on_ack, []
        for handler in handlers:
            with suppress(Exception):
                handler()

    def nack(self, error: BaseException | str | None = None) -> None:
        """Refuse; a text becomes an error, and without any a general one is kept.

        Raises:
            AlreadySignalledError: It was signalled before.
        """
        self._refuse_second()
        if not isinstance(error, BaseException):
            error = NackError("the dispatch was refused without a reason" if error is None else str(error))
        self._nack_error = error
        self._on_ack = []

    def on_ack(self, handler: Callable[[], object]) -> Callable[[], None]:
        """Have a function called on acknowledgement; gives back the function that takes it off again.

        Raises:
            UsageError: It cannot be called.
        """
        if not callable(cast("object", handler)):
            raise UsageError(f"on_ack takes a function of nothing, got {type(handler).__name__}", field="fn")

        def mine() -> object:
            return handler()

        self._on_ack.append(mine)

        def forget() -> None:
            with suppress(ValueError):
                self._on_ack.remove(mine)

        return forget

    def _refuse_second(self) -> None:
        if self.is_signalled:
            word = "acknowledged" if self._acked else "refused"
            raise AlreadySignalledError(f"this dispatch was {word} already; look at is_signalled before you signal")


class AbortSignal:
    """Set once; who registered is told at once, or right away when it is too late."""

    def __init__(self, parent: "AbortSignal | None" = None) -> None:
        self._aborted = False
        self._listeners: list[Callable[[], object]] = []
        if parent is not None:
            parent.on_abort(self.abort)

    @property
    def aborted(self) -> bool:
        """Whether it was set."""
        return self._aborted

    def abort(self) -> None:
        """Set it; a second time does nothing."""
        if self._aborted:
            return
        self._aborted = True
        for listener in list(self._listeners):
            with suppress(Exception):
                listener()

    def on_abort(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Have a function called when it is set; gives back the function that takes it off again."""
        self._listeners.append(listener)
        if self._aborted:
            listener()

        def forget() -> None:
            with suppress(ValueError):
                self._listeners.remove(listener)

        return forget
