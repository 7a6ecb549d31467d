"""The kernel's limits on one process, set right before it becomes the command. Used by the launcher."""

import os
import resource

TYPE_CHECKING = False  # pyright takes it for true; typing would cost more than the rest of the imports together
if TYPE_CHECKING:
    from collections.abc import Mapping

_CPU_GRACE_SECONDS = 1
"""Between the signal that tells a program its time is up, and the one it cannot ignore."""


def apply(limits: "Mapping[str, int | None]") -> None:
    """Set every limit but that on processes, and write no core files."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, limits.get("cpu_seconds"), extra=_CPU_GRACE_SECONDS)
    _limit(resource.RLIMIT_AS, limits.get("memory_bytes"))
    _limit(resource.RLIMIT_FSIZE, limits.get("file_bytes"))
    _limit(resource.RLIMIT_NOFILE, limits.get("open_files"))


def limit_processes(processes: int, *, own_user_namespace: bool) -> bool:
    """Bound the number of processes and threads; tell whether that binds this user.

    The kernel counts all that the user has: in a user namespace those inside it, elsewhere those of the whole machine.
    """
    if os.getuid() == 0:
        return False
    _limit(resource.RLIMIT_NPROC, processes + (_WITH_US if own_user_namespace else _tasks_of(os.getuid())))
    return True


_WITH_US = 3
"""The launcher and the first processes of the namespace count too."""


def _limit(kind: int, value: int | None, *, extra: int = 0) -> None:
    if value is None:
        return
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    top = value + extra if hard == resource.RLIM_INFINITY else min(value + extra, hard)
    resource.setrlimit(kind, (value, top))


def _tasks_of(user: int) -> int:
    count = 0
    for name in os.listdir("/proc"):  # noqa: PTH208 - the launcher does not pay for importing pathlib
        if not name.isdigit():
            continue
        try:
            if os.stat(f"/proc/{name}").st_uid == user:  # noqa: PTH116 - as above
                count += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208 - as above
        except OSError:
            continue  # it ended meanwhile
    return count
