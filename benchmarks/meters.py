"""What a sample counts: wall time, CPU time of this process and all its children, or the peak of memory."""

import gc
import os
import resource
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path


class CpuTime:
    """Counts the CPU time of this process and of its children: those that were waited for, and those that still run."""

    def __enter__(self) -> "CpuTime":
        self._children = _children_seconds()
        self._own = time.process_time()  # last, and first at the end: reading the children's time is not counted
        return self

    def __exit__(self, *error: object) -> None:
        own = time.process_time() - self._own
        self.count = own + _children_seconds() - self._children


class WallTime:
    """Counts the seconds that pass."""

    def __enter__(self) -> "WallTime":
        self._began = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.count = time.perf_counter() - self._began


class PeakMemory:
    """Counts the bytes that Python allocated at the peak, over what was allocated when it started."""

    def __enter__(self) -> "PeakMemory":
        gc.collect()
        tracemalloc.start()
        self._base = tracemalloc.get_traced_memory()[0]
        return self

    def __exit__(self, *error: object) -> None:
        self.count = float(tracemalloc.get_traced_memory()[1] - self._base)
        tracemalloc.stop()


METERS = {"wall": WallTime, "cpu": CpuTime, "memory": PeakMemory}


def _children_seconds() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + sum(map(_run_seconds, _descendants(os.getpid())))


def _descendants(pid: int) -> Iterator[int]:
    """Yield the processes below `pid` that still run; none where the system has no `/proc`."""
    for task in _listed(Path(f"/proc/{pid}/task")):
        for child in map(int, _read(task / "children").split()):
            yield child
            yield from _descendants(child)


def _run_seconds(pid: int) -> float:
    # The first number of schedstat is in nanoseconds; /proc/PID/stat counts hundredths of a second.
    tasks = (_read(task / "schedstat").split() for task in _listed(Path(f"/proc/{pid}/task")))
    return sum(int(numbers[0]) for numbers in tasks if numbers) / 1e9


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # the process has ended
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


PEAK_OF_PROCESS = """
import re as _re
from pathlib import Path as _Path
def _peak():
    return int(_re.search(r"VmHWM:\\s+(\\d+)", _Path("/proc/self/status").read_text())[1]) * 1024.0
"""
"""Code for a fresh interpreter. Not `getrusage`: its peak is inherited from the process that started this one."""
