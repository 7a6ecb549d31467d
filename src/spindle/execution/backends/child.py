"""The life of a worker process: settle in, run one function, tell what became of it, end."""

import os
import pickle
import traceback
from collections.abc import Callable
from threading import Lock
from typing import Any, NoReturn

from spindle.errors import NotSendableError, UsageError
from spindle.execution.backends.fork import address_space, flush_output, settle_in
from spindle.execution.backends.frames import FAILURE, MESSAGE, RESULT, UNSENDABLE, Failure, Kind, frame
from spindle.execution.backends.raised import text_of


class ChildLink:
    """A running call's line to the process that waits for it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._identity = _identity(descriptor)
        self._pid = os.getpid()
        self._lock = Lock()

    def send(self, message: Any) -> None:
        """Hand a message to the waiting process, which gets it before the answer; from any thread of this process.

        Raises:
            NotSendableError: The message does not pickle.
        """
        try:
            payload = pickle.dumps(message)
        except Exception as error:
            raise not_sendable("a message", type(message).__name__) from error
        self.write(MESSAGE, payload)

    def write(self, kind: Kind, payload: bytes) -> None:
        """Write one frame as a whole."""
        if os.getpid() != self._pid:
            raise UsageError("only the worker process itself may send, not a process forked from it")
        with self._lock:
            # A handler that closed descriptors it did not open may have a file of its own under this number by now.
            if _identity(self._descriptor) != self._identity:
                raise UsageError("the line to the waiting process was closed by the handler: close only your own files")
            rest = memoryview(frame(kind, payload))
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]


def live(descriptor: int, parent_pid: int, call: Callable[[ChildLink], Any], max_memory_bytes: int | None) -> NoReturn:
    """Be the worker process: run `call`, answer, and end without a way back into the program that was forked."""
    settle_in(parent_pid)
    link = ChildLink(descriptor)
    kind, payload = _answer(call, link, max_memory_bytes)
    flush_output()
    link.write(kind, payload)
    os._exit(0)


def _answer(call: Callable[[ChildLink], Any], link: ChildLink, max_memory_bytes: int | None) -> tuple[Kind, bytes]:
    try:
        with address_space(max_memory_bytes):
            value = call(link)
    except BaseException as error:  # noqa: BLE001 - whatever it raises is the answer, also SystemExit
        return FAILURE, pickle.dumps(_failure(error))
    try:
        return RESULT, pickle.dumps(value)
    except Exception:  # noqa: BLE001 - pickling runs the value's own code, which may raise anything
        return UNSENDABLE, type(value).__name__.encode()


def _failure(error: BaseException) -> Failure:
    try:
        pickled = pickle.dumps(error)
    except Exception:  # noqa: BLE001 - as above; the description is enough
        pickled = None
    try:
        told = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - formatting runs the exception's own code
        told = ""
    kind = type(error)
    return Failure(kind.__module__, kind.__qualname__, text_of(error), told, pickled)


def not_sendable(what: str, type_name: str) -> NotSendableError:
    """Give the error for a value that does not pickle."""
    return NotSendableError(
        f"{what} of the tool ({type_name}) cannot leave its worker process, because it does not pickle; "
        'return plain data, or run the tool with isolation="thread"',
        type_name=type_name,
    )


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
