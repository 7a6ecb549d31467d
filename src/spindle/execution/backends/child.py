"""The worker process: fork, isolate from the parent, run one function, send its result, exit."""

import ctypes
import gc
import os
import signal
import stat
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Any, Literal, NoReturn, TypeAlias

from spindle.errors import HandlerFailedError, NotSendableError, UsageError
from spindle.execution.backends.serialization import build_not_sendable, dump, dump_failure, get_message

_PR_SET_PDEATHSIG = 1
_prctl: Any = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_forking = Lock()

EXIT_UNABLE_TO_ANSWER = 70
"""Exit code of a child that could not send its failure."""


def fork(child: Callable[[], NoReturn]) -> int:
    """Fork and return the child's process id; in the child, run `child` and never return.

    The child starts with all signals blocked: until it has reset the parent's handlers (`settle_in`), a signal to the
    process group, such as Ctrl-C, would run them twice and write to the parent's event loop.
    """
    flush_output()
    with _forking, _without_fork_warning():
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                _run_child(child)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def _run_child(child: Callable[[], NoReturn]) -> NoReturn:
    try:
        # The child's copy of the lock is held by a thread that does not exist here.
        _forking.release()
        child()
    finally:
        os._exit(EXIT_UNABLE_TO_ANSWER)


@contextmanager
def _without_fork_warning() -> Generator[None]:
    """Suppress the warning of Python 3.12 and later about forking a multi-threaded process.

    Locks held by other threads stay locked in the child. That is acceptable: the child runs one function, is killed at
    its deadline and never returns to the program.
    """
    if sys.version_info < (3, 12):
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"This process .* is multi-threaded", DeprecationWarning)
        yield


def isolate(parent_pid: int) -> None:
    """Isolate a forked child from its parent: new session, default signals, empty stdin, no sockets."""
    os.setsid()
    _set_parent_death_signal(parent_pid)
    _reset_signals()
    # Objects of the parent must not be finalised here: that could delete its temporary files.
    gc.freeze()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open until the process exits
    _replace_sockets(null)
    os.close(null)


def _set_parent_death_signal(parent_pid: int) -> None:
    """Ask the kernel to kill this process when its parent dies; Linux only."""
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
    # If it stayed ignored, the exit codes of the child's own children would be lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _replace_sockets(null: int) -> None:
    """Replace the parent's sockets by /dev/null: a copy would keep its connections open or could write to them.

    The descriptors stay in use, so that objects which still refer to them cannot close a file opened later.
    """
    with suppress(OSError):
        for entry in list(Path("/dev/fd").iterdir()):
            number = int(entry.name)
            with suppress(OSError):
                if number > 2 and stat.S_ISSOCK(os.fstat(number).st_mode):
                    os.dup2(null, number, inheritable=False)


def flush_output() -> None:
    """Flush stdout and stderr, so that a fork does not print buffered text twice and an exit does not lose it."""
    for stream in (sys.stdout, sys.stderr):
        # A stream is None without a console; a closed or broken one cannot be flushed.
        with suppress(AttributeError, ValueError, OSError):
            stream.flush()


@contextmanager
def limit_address_space(max_memory_bytes: int | None) -> Generator[None]:
    """Limit further memory to `max_memory_bytes` on top of the current usage; beyond it `MemoryError` is raised."""
    if max_memory_bytes is None:
        yield
        return
    import resource  # noqa: PLC0415 - missing on platforms without fork, which never get here

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
"""A message sent while the call runs: an encoded value."""
RESULT: Literal[b"r"] = b"r"
"""The result: an encoded value."""
UNSENDABLE: Literal[b"u"] = b"u"
"""A result that has no encoding: the name of its type."""
FAILURE: Literal[b"f"] = b"f"
"""An exception: encoded by `dump_failure`."""

MAX_FRAME_BYTES = 1 << 29
"""The longest payload of a frame, so that a handler that writes to the pipe itself cannot fill the program's memory."""
_HEADER = Struct(">cQ")
_KINDS: dict[bytes, Kind] = {b"m": MESSAGE, b"r": RESULT, b"u": UNSENDABLE, b"f": FAILURE}


def encode_frame(kind: Kind, payload: bytes) -> bytes:
    """Encode a frame."""
    return _HEADER.pack(kind, len(payload)) + payload


class FrameDecoder:
    """Incremental decoder of frames."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Kind, bytes]]:
        """Add received bytes and yield the frames that are complete.

        Raises:
            ValueError: The bytes are not a frame.
        """
        self._pending += data
        while len(self._pending) >= _HEADER.size:
            name, length = _HEADER.unpack_from(self._pending)
            kind = _KINDS.get(name)
            if kind is None:
                raise ValueError(f"Unknown frame kind {name!r}.")
            if length > MAX_FRAME_BYTES:
                raise ValueError(f"A frame of {length} bytes exceeds {MAX_FRAME_BYTES}.")
            end = _HEADER.size + length
            if len(self._pending) < end:
                return
            with memoryview(self._pending) as view:
                payload = bytes(view[_HEADER.size : end])
            del self._pending[:end]
            yield kind, payload


def wrap_control_exception(error: BaseException) -> HandlerFailedError:
    """Build the error that replaces an exception with a special meaning for coroutines."""
    name = type(error).__name__
    return HandlerFailedError(
        f"The handler raised {name}, which has a special meaning for the event loop; "
        "return a value, or raise an ordinary exception.",
        class_name=name,
        text=get_message(error),
    )


class ChildLink:
    """The connection of a running call to its parent process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._identity = _get_inode(descriptor)
        self._pid = os.getpid()
        self._lock = Lock()

    def send(self, message: object) -> None:
        """Send a message to the parent process, which receives it before the result; from any thread of this process.

        Raises:
            NotSendableError: The message has no encoding.
        """
        try:
            payload = dump(message)
        except NotSendableError as error:
            raise build_not_sendable(error.type_name, "a message") from error
        self.write(MESSAGE, payload)

    def write(self, kind: Kind, payload: bytes) -> None:
        """Write one complete frame.

        Raises:
            UsageError: This is a fork of the worker process, or the handler closed the pipe.
        """
        if os.getpid() != self._pid:
            raise UsageError("Only the worker process itself may send messages, not a process forked from it.")
        with self._lock:
            # A handler that closed foreign descriptors may have opened its own file under this number.
            if _get_inode(self._descriptor) != self._identity:
                raise UsageError("The handler closed the pipe to the parent process; close only your own files.")
            rest = memoryview(encode_frame(kind, payload))
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]


def run_worker(
    descriptor: int, parent_pid: int, call: Callable[[ChildLink], object], max_memory_bytes: int | None
) -> NoReturn:
    """Run `call` as the worker process, send its result and exit; never return to the forked program."""
    isolate(parent_pid)
    link = ChildLink(descriptor)
    kind, payload = _run_call(call, link, max_memory_bytes)
    flush_output()
    link.write(kind, payload)
    os._exit(0)


def _run_call(call: Callable[[ChildLink], object], link: ChildLink, max_memory_bytes: int | None) -> tuple[Kind, bytes]:
    try:
        with limit_address_space(max_memory_bytes):
            value = call(link)
    except BaseException as error:  # noqa: BLE001 - sent to the parent, also SystemExit
        return FAILURE, dump_failure(error, _format_traceback(error))
    try:
        payload = dump(value)
    except NotSendableError as error:
        return UNSENDABLE, error.type_name.encode(errors="replace")
    if len(payload) > MAX_FRAME_BYTES:
        return UNSENDABLE, f"{type(value).__name__} of more than {MAX_FRAME_BYTES} bytes".encode(errors="replace")
    return RESULT, payload


def _format_traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001 - formatting runs the exception's own code
        return ""


def _get_inode(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
