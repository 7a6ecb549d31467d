"""The cgroup that bounds processes, where the system lets us have one."""

import os
import subprocess
from pathlib import Path

import pytest

from spindle.capabilities.process.backend_sandbox import PidsCgroup


@pytest.fixture
def group() -> PidsCgroup:
    made = PidsCgroup.create()
    if made is None:
        pytest.skip("no pids cgroup can be made here")
    return made


def folders(pid: int) -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob(f"**/spindle-{pid}-*"))


def test_a_process_and_its_descendants_are_held_and_the_group_goes_after_them(group: PidsCgroup) -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & echo up; wait"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        group.add_processes(process.pid, 5)

        [folder] = folders(os.getpid())
        held = (folder / "cgroup.procs").read_text().split()
        assert len(held) == 2
        assert str(process.pid) in held
        assert (folder / "pids.max").read_text() == "7\n"
        for pid in held:
            os.kill(int(pid), 9)

    group.remove()
    assert folders(os.getpid()) == []


def test_the_group_of_a_program_that_died_is_cleared_away(group: PidsCgroup) -> None:
    [mine] = folders(os.getpid())
    namespace = mine.name.split("-")[2]
    dead = mine.parent / f"spindle-999999999-{namespace}-abc"
    foreign = mine.parent / f"spindle-999999999-{int(namespace) + 1}-abc"
    dead.mkdir()
    foreign.mkdir()
    group.remove()

    again = PidsCgroup.create()

    assert again is not None
    assert not dead.exists()
    assert foreign.exists()  # its process id belongs to another process namespace, such as a container's
    foreign.rmdir()
    again.remove()
