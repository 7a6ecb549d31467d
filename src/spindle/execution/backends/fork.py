"""The fork itself, and what a child must let go of before it runs anything."""

import ctypes
import gc
import os
import signal
import stat
import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

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
