"""The life of a worker process: settle in, run one function, tell what became of it, end."""

import ctypes
import gc
import os
import pickle
import signal
import stat
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Any, Literal, NoReturn, TypeAlias

from spindle.errors import HandlerFailedError, NotSendableError, UsageError

_PR_SET_PDEATHSIG = 1
_prctl: Any = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_forking = Lock()

EXIT_UNABLE_TO_ANSWER = 70
"""The exit code of a child that could not even say what went wrong."""


def fork(child: Callable[[], NoReturn]) -> int:
    """Fork; give the child's process id. The child runs `child` and never comes back from here.

    It wakes up with all signals blocked: until it has let go of the parent's handlers (`settle_in`), a signal to both,
    such as Ctrl-C, would run them twice and write into the parent's event loop.
    """
    flush_output()
    with _forking, _without_fork_warning():
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                _be(child)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def _be(child: Callable[[], NoReturn]) -> NoReturn:
    try:
        # The child has a copy of the lock, held by nobody it knows.
        _forking.release()
        child()
    finally:
        os._exit(EXIT_UNABLE_TO_ANSWER)


@contextmanager
def _without_fork_warning() -> Generator[None]:
    """Python 3.12 and later warn of a fork beside threads.

    Locks that those hold stay locked in the child. It runs one function, is killed at its deadline and never returns to
    the program, which is why we may.
    """
    if sys.version_info < (3, 12):
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"This process .* is multi-threaded", DeprecationWarning)
        yield


def settle_in(parent_pid: int) -> None:
    """Make a forked child a process of its own: session, signals, input; without a hold on what is the parent's."""
    os.setsid()
    _die_with(parent_pid)
    _reset_signals()
    # Garbage of the parent is its own to finalise: nobody deletes its temporary files from here.
    gc.freeze()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - a descriptor, for the whole life
    _let_go_of_sockets(null)
    os.close(null)


def _die_with(parent_pid: int) -> None:
    """Ask the system to kill this process when its parent dies; only Linux can do that."""
    if _prctl is None:
        return
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    # Ignored, it would take away the exit codes of the child's own children.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _let_go_of_sockets(null: int) -> None:
    """Replace the parent's sockets: a copy here would keep its connections open, or talk in between.

    Their numbers stay taken, so that objects which still hold them cannot close a file opened later.
    """
    with suppress(OSError):
        for entry in list(Path("/dev/fd").iterdir()):
            number = int(entry.name)
            with suppress(OSError):
                if number > 2 and stat.S_ISSOCK(os.fstat(number).st_mode):
                    os.dup2(null, number, inheritable=False)


def flush_output() -> None:
    """Write out what was printed, so that a fork does not print it twice and an exit does not lose it."""
    for stream in (sys.stdout, sys.stderr):
        # None without a console; closed or broken is nothing we could mend here.
        with suppress(AttributeError, ValueError, OSError):
            stream.flush()


@contextmanager
def address_space(max_memory_bytes: int | None) -> Generator[None]:
    """Allow so many bytes more than there are already; beyond that, memory is refused (`MemoryError`)."""
    if max_memory_bytes is None:
        yield
        return
    import resource  # noqa: PLC0415 - not there on a platform without fork, where this is never reached

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _address_space_in_use() + max_memory_bytes
    bounds = [bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([limit, *bounds]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space_in_use() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


Kind: TypeAlias = Literal[b"m", b"r", b"u", b"f"]
MESSAGE: Literal[b"m"] = b"m"
"""Something said on the way: a pickled value."""
RESULT: Literal[b"r"] = b"r"
"""The answer: a pickled value."""
UNSENDABLE: Literal[b"u"] = b"u"
"""There was an answer, but it does not pickle: the name of its type."""
FAILURE: Literal[b"f"] = b"f"
"""What was raised instead: a pickled `Failure`."""

_HEADER = Struct(">cQ")
_KINDS: dict[bytes, Kind] = {b"m": MESSAGE, b"r": RESULT, b"u": UNSENDABLE, b"f": FAILURE}


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception on its way between processes."""

    module: str
    class_name: str
    text: str
    traceback: str
    pickled: bytes | None
    """The exception itself, if it pickles."""


def frame(kind: Kind, payload: bytes) -> bytes:
    """Give the bytes of a frame."""
    return _HEADER.pack(kind, len(payload)) + payload


class FrameReader:
    """Puts frames together from the pieces in which they arrive."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Kind, bytes]]:
        """Give the frames that are complete with `data`.

        Raises:
            ValueError: These are no frames.
        """
        self._pending += data
        while len(self._pending) >= _HEADER.size:
            name, length = _HEADER.unpack_from(self._pending)
            kind = _KINDS.get(name)
            if kind is None:
                raise ValueError(f"no frame begins with {name!r}")
            end = _HEADER.size + length
            if len(self._pending) < end:
                return
            with memoryview(self._pending) as view:
                payload = bytes(view[_HEADER.size : end])
            del self._pending[:end]
            yield kind, payload


def text_of(error: BaseException) -> str:
    """Give an exception's message, also of one whose message raises."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the text is the handler's code, and may do anything
        return "(its message cannot be shown)"


def steering_failure(error: BaseException) -> HandlerFailedError:
    """Give the error that stands for one which coroutines would take for a sign."""
    name = type(error).__name__
    return HandlerFailedError(
        f"the handler raised {name}, which an event loop would take for a sign to itself; "
        "return a value, or raise an ordinary exception",
        class_name=name,
        text=text_of(error),
    )


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
