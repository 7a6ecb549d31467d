"""Bounds on work and on waiting that hold on a busy machine too."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

CPU_SECONDS = 10.0
"""Far more than any bounded work in these tests needs, and far less than work that explodes."""

PATIENCE_SECONDS = 60.0
"""How long to wait for another process or thread."""


@contextmanager
def bounded_cpu(seconds: float = CPU_SECONDS) -> Generator[None]:
    """Fail if the block uses more CPU time than `seconds`; time spent waiting for a core does not count."""
    begun = time.process_time()
    yield
    used = time.process_time() - begun
    assert used < seconds, f"used {used:.1f} s of CPU time, of {seconds} s allowed"


class CallCounter:
    """The number of calls of Python functions so far; resuming a generator or a coroutine counts as one."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        self.count += event == "call"


@contextmanager
def counted_calls() -> Generator[CallCounter]:
    """Count the calls of Python functions in this thread while the block runs."""
    counter = CallCounter()
    sys.setprofile(counter)
    try:
        yield counter
    finally:
        sys.setprofile(None)


def wait_until(is_so: Callable[[], bool], explain: Callable[[], object] = lambda: "") -> None:
    """Poll a condition that another process or thread brings about without telling; fail if it never holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"the condition did not hold within {PATIENCE_SECONDS} s {explain()}")
        time.sleep(0.01)
