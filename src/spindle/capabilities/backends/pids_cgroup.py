"""A pids cgroup: the one bound on the number of processes that binds root too."""

import os
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

_PROC = Path("/proc")
_MOUNTS = Path("/sys/fs/cgroup")


class PidsCgroup:
    """A group of processes that cannot grow beyond a number."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def create(cls) -> "PidsCgroup | None":
        """Make one below our own, if the system lets us."""
        for parent in _own_groups():
            folder = parent / f"spindle-{os.getpid()}-{uuid4().hex[:12]}"
            try:
                folder.mkdir()
            except OSError:
                continue
            if (folder / "pids.max").exists():
                _clear_after_the_dead(parent)
                return cls(folder)
            folder.rmdir()
        return None

    def hold(self, leader: int, processes: int) -> None:
        """Put a process and its descendants in, and let them start so many more.

        Raises:
            OSError: The system refuses.
        """
        pids = _tree(leader)
        for pid in pids:
            with suppress(ProcessLookupError):
                (self._folder / "cgroup.procs").write_text(f"{pid}\n", encoding="ascii")
        (self._folder / "pids.max").write_text(f"{processes + len(pids)}\n", encoding="ascii")

    def remove(self) -> None:
        """Take it away, once the last process has left."""
        until = time.monotonic() + 1
        while time.monotonic() < until:
            try:
                self._folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.005)  # the kernel is still burying the last of them
            else:
                return


def _own_groups() -> list[Path]:
    """Folders of the groups this process is in, where processes can be counted."""
    try:
        lines = (_PROC / "self" / "cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    found: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        relative = path.lstrip("/")
        if "pids" in controllers.split(","):
            found.append(_MOUNTS / "pids" / relative)
        elif not controllers:
            found += [_MOUNTS / relative, _MOUNTS / "unified" / relative]
    return [folder for folder in found if folder.is_dir()]


def _clear_after_the_dead(parent: Path) -> None:
    """Remove the groups of programs that were killed before they could; one with a process in it stays by itself."""
    for folder in parent.glob("spindle-*-*"):
        pid = folder.name.split("-")[1]
        if not (_PROC / pid).exists():
            with suppress(OSError):
                folder.rmdir()


def _tree(leader: int) -> list[int]:
    pids = [leader]
    for pid in pids:
        with suppress(OSError):
            text = (_PROC / str(pid) / "task" / str(pid) / "children").read_text(encoding="ascii")
            pids += [int(child) for child in text.split()]
    return pids
