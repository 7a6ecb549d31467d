"""What a command may use: memory, time, file sizes, processes, and room for what it writes."""

import resource
import signal
from pathlib import Path

import anyio
import pytest

from spindle import Spool
from spindle.capabilities.process.backend_sandbox import SandboxKind
from spindle.capabilities.process.policy import ProcessLimits
from spindle.errors import SpoolError
from tests.capabilities.confined import KINDS, backend, handle, run_python

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

MIB = 1 << 20


async def test_a_memory_hog_is_refused_memory(tmp_path: Path) -> None:
    process = handle(tmp_path, limits=ProcessLimits(memory_bytes=256 * MIB))

    done = await run_python(process, "x = bytearray(1 << 30)")

    assert done.exit_code == 1
    assert "MemoryError" in done.stderr


@pytest.mark.slow
async def test_a_cpu_hog_is_ended_by_the_kernel(tmp_path: Path) -> None:
    process = handle(tmp_path, limits=ProcessLimits(cpu_seconds=1))

    with anyio.fail_after(40):
        done = await run_python(process, "while True: pass")

    assert (done.exit_code, done.signal, done.timed_out) == (None, signal.SIGXCPU, False)


@pytest.mark.slow
async def test_a_cpu_hog_that_ignores_the_warning_is_killed(tmp_path: Path) -> None:
    process = handle(tmp_path, limits=ProcessLimits(cpu_seconds=1))

    with anyio.fail_after(40):
        done = await run_python(process, "import signal; signal.signal(24, signal.SIG_IGN)\nwhile True: pass")

    assert (done.exit_code, done.signal) == (None, signal.SIGKILL)


async def test_a_file_grows_no_larger_than_its_limit(tmp_path: Path) -> None:
    process = handle(tmp_path, limits=ProcessLimits(file_bytes=MIB))

    done = await process.run(["dd", "if=/dev/zero", "of=big", "bs=64k", "count=64"])

    assert (done.exit_code, done.signal) == (None, signal.SIGXFSZ)
    assert (tmp_path / "big").stat().st_size == MIB


async def test_a_limit_never_raises_what_the_host_has(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    process = handle(tmp_path, limits=ProcessLimits(open_files=hard + 1000))

    done = await run_python(process, "import resource; print(*resource.getrlimit(resource.RLIMIT_NOFILE))")

    assert done.stdout == f"{hard} {hard}\n"


async def test_no_core_file_is_written(tmp_path: Path) -> None:
    done = await run_python(handle(tmp_path), "import resource; print(*resource.getrlimit(resource.RLIMIT_CORE))")

    assert done.stdout == "0 0\n"


FORKS = """
import os, time
made = 0
try:
    for _ in range(60):  # bounded by count, whatever the limit does
        if not os.fork():
            time.sleep(60)
            os._exit(0)
        made += 1
except BlockingIOError:
    pass
print(made)
"""


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("off", "landlock")])
async def test_a_command_starts_no_more_processes_than_it_may(kind: SandboxKind, tmp_path: Path) -> None:
    limits = ProcessLimits(processes=20)
    enforcement = backend(tmp_path, kind, limits=limits).enforcement()
    if enforcement["processes"] is None or "pids" not in enforcement["enforced"]:
        pytest.skip(f"the number of processes cannot be bounded here: {enforcement['missing']}")

    done = await run_python(handle(tmp_path, kind, limits=limits, grace_seconds=0.1), FORKS)

    assert 10 <= int(done.stdout) <= 20


FLOOD = "import os, sys; block = b'y\\n' * 32768\nfor _ in range(int(sys.argv[1])): os.write(1, block)"
"""Writes a number of blocks of 64 KiB."""


async def test_a_flood_is_counted_and_takes_no_memory(tmp_path: Path) -> None:
    process = handle(tmp_path, limits=ProcessLimits(output_bytes=1000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    done = await run_python(process, FLOOD, "1600")

    assert (done.exit_code, done.stdout_bytes, done.stdout_truncated) == (0, 1600 * 65536, True)
    assert (done.stdout, done.stdout_artifact) == ("y\n" * 500, None)
    assert done.notes
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB, of 100 MiB


@pytest.mark.slow
async def test_a_gigabyte_is_no_more_than_a_flood(tmp_path: Path) -> None:
    process = handle(tmp_path, limits=ProcessLimits(output_bytes=1000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    done = await run_python(process, FLOOD, "16384")

    assert done.stdout_bytes == 1 << 30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000


async def test_output_over_the_limit_is_whole_in_the_spool(tmp_path: Path) -> None:
    spool = Spool.files(tmp_path / "spool")
    process = handle(tmp_path / "root", spool=spool, limits=ProcessLimits(output_bytes=10))
    code = "import sys; sys.stdout.write('ab' * 100_000); sys.stderr.write('short')"

    done = await run_python(process, code)

    assert (done.stdout, done.stdout_truncated, done.stderr, done.stderr_artifact) == ("ab" * 5, True, "short", None)
    assert done.stdout_artifact is not None
    reader = await spool.read(done.stdout_artifact)
    assert reader is not None
    assert await reader.read_all() == b"ab" * 100_000
    assert done.notes == ()


async def test_output_over_the_spools_share_is_counted_and_dropped(tmp_path: Path) -> None:
    spool = Spool.memory()
    process = handle(tmp_path, spool=spool, limits=ProcessLimits(output_bytes=10, spool_bytes=70_000))

    done = await run_python(process, FLOOD, "3")

    assert done.stdout_artifact is not None
    reader = await spool.read(done.stdout_artifact)
    assert reader is not None
    assert await reader.byte_length() == 70_000
    assert done.stdout_bytes == 3 * 65536
    assert len(done.notes) == 1


class _FullSpool:
    async def write(self, id: str, content: object, *, turn_id: str | None = None) -> object:
        raise SpoolError("no room")


async def test_a_spool_that_fails_costs_the_rest_and_not_the_answer(tmp_path: Path) -> None:
    process = handle(tmp_path, spool=_FullSpool(), limits=ProcessLimits(output_bytes=10))

    with anyio.fail_after(30):
        done = await run_python(process, FLOOD, "40")

    assert (done.exit_code, done.stdout_bytes, done.stdout_artifact) == (0, 40 * 65536, None)
    assert len(done.notes) == 2


async def test_bytes_that_are_not_text_are_shown_as_such_and_kept(tmp_path: Path) -> None:
    done = await run_python(handle(tmp_path), "import os; os.write(1, b'a\\xff\\x00z')")

    assert (done.stdout, done.raw_stdout) == ("a\ufffd\0z", b"a\xff\x00z")


async def test_a_character_is_not_cut_in_two(tmp_path: Path) -> None:
    process = handle(tmp_path, limits=ProcessLimits(output_bytes=4))

    done = await run_python(process, "import os; os.write(1, 'aé€'.encode())")

    assert (done.stdout, done.stdout_truncated) == ("aé", True)
