"""Running commands: how they start, what they see, how they end."""

import os
import signal
from pathlib import Path

import anyio
import pytest

from spindle.capabilities.declare import CallScope
from spindle.capabilities.process.backend import ProcessBackend
from spindle.capabilities.process.policy import Finished
from spindle.errors import (
    ArgumentsTooLongError,
    CapabilityError,
    CommandNotAllowedError,
    ProcessStartError,
    ProgramNotExecutableError,
    ProgramNotFoundError,
)
from tests.capabilities.confined import HOLD, handle, is_held, names, open_descriptors, run_python

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

SCOPE = CallScope(tool="runner", session_id="s1")


async def test_a_command_gives_its_exit_code_and_what_it_wrote(tmp_path: Path) -> None:
    done = await run_python(
        handle(tmp_path), "import sys; print('out', sys.argv[1]); print('err', file=sys.stderr); sys.exit(3)", "a b;$c"
    )

    assert (done.exit_code, done.signal, done.timed_out, done.ok) == (3, None, False, False)
    assert (done.stdout, done.stderr) == ("out a b;$c\n", "err\n")


async def test_a_signal_is_distinguished_from_an_exit_code(tmp_path: Path) -> None:
    process = handle(tmp_path)

    killed = await run_python(process, "import os; os.kill(os.getpid(), 9)")
    looks_killed = await run_python(process, "import sys; sys.exit(137)")

    assert (killed.exit_code, killed.signal, killed.timed_out) == (None, signal.SIGKILL, False)
    assert (looks_killed.exit_code, looks_killed.signal) == (137, None)


TOO_LONG = {
    "sleeps": "import time; print('begun', flush=True); time.sleep(60)",
    "tidies up": "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(5)); print('on'); time.sleep(60)",
    "ignores it": HOLD + "import signal; signal.signal(15, signal.SIG_IGN); hold('lock'); time.sleep(60)",
}


@pytest.mark.slow
async def test_a_command_that_takes_too_long_may_tidy_up_or_is_killed(tmp_path: Path) -> None:
    ended: dict[str, Finished] = {}

    async def run(name: str, grace_seconds: float) -> None:
        process = handle(tmp_path, grace_seconds=grace_seconds)
        ended[name] = await run_python(process, TOO_LONG[name], timeout_seconds=3)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:  # at once, since each one waits for its timeout
            for name, grace_seconds in (("sleeps", 60), ("tidies up", 60), ("ignores it", 0.1)):
                tasks.start_soon(run, name, grace_seconds)

    assert {name: (done.exit_code, done.signal) for name, done in ended.items()} == {
        "sleeps": (None, signal.SIGTERM),
        "tidies up": (5, None),
        "ignores it": (None, signal.SIGKILL),
    }
    assert all(done.timed_out and not done.ok for done in ended.values())
    assert ended["sleeps"].stdout == "begun\n"
    assert not is_held(tmp_path / "lock")


async def test_cancelling_ends_the_command_before_it_returns(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    code = HOLD + "hold('lock'); open('fifo', 'w').close(); time.sleep(60)"

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_python, handle(tmp_path), code)
            await anyio.to_thread.run_sync((tmp_path / "fifo").read_bytes)  # until it has the lock
            assert is_held(tmp_path / "lock")
            tasks.cancel_scope.cancel()

    assert not is_held(tmp_path / "lock")
    assert names(tmp_path) == ["fifo", "lock"]


async def test_input_is_fed_whole_and_closed(tmp_path: Path) -> None:
    process = handle(tmp_path)
    data = os.urandom(3_000_000)

    done = await run_python(process, "import sys; print(len(sys.stdin.buffer.read()))", stdin=data)
    unread = await run_python(process, "print('did not look')", stdin=data)
    text = await process.run(["cat"], stdin="grüße\n")

    assert done.stdout == "3000000\n"
    assert (unread.exit_code, unread.stdout) == (0, "did not look\n")
    assert text.stdout == "grüße\n"


async def test_without_input_the_command_reads_the_end_at_once(tmp_path: Path) -> None:
    assert (await handle(tmp_path).run(["cat"])).exit_code == 0


async def test_the_hosts_environment_stays_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "hunter2")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")

    done = await handle(tmp_path, env={"GRANTED": "yes"}).run(["env"], env={"MINE": "too"})

    seen = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert set(seen) == {"PATH", "LANG", "HOME", "TMPDIR", "GRANTED", "MINE"}
    assert seen["HOME"] == seen["TMPDIR"]
    assert Path(seen["HOME"]).parent == tmp_path


async def test_the_scratch_folder_is_new_for_each_command_and_goes_with_it(tmp_path: Path) -> None:
    process = handle(tmp_path)
    code = "import os; home = os.environ['HOME']; print(os.listdir(home)); open(home + '/x', 'w').write('1')"

    assert [(await run_python(process, code)).stdout for _ in range(2)] == ["[]\n", "[]\n"]
    assert names(tmp_path) == []


async def test_a_link_in_place_of_the_scratch_folder_deletes_nothing_else(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    code = "import os; home = os.environ['HOME']; os.rmdir(home); os.symlink(os.getcwd() + '/kept', home)"

    await run_python(handle(tmp_path), code)

    assert names(tmp_path) == ["kept", "kept/file"]


async def test_a_command_starts_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    process = handle(tmp_path)

    assert (await process.run(["pwd"])).stdout == f"{tmp_path}\n"
    assert (await process.run(["pwd"], cwd="sub")).stdout == f"{tmp_path}/sub\n"


@pytest.mark.parametrize("cwd", ["..", "/", "out", "out/etc", "missing", "file"])
async def test_no_folder_outside_the_root_is_entered(cwd: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "out").symlink_to("/")
    (root / "file").touch()

    with pytest.raises(CapabilityError) as caught:
        await handle(root).run(["touch", "made"], cwd=cwd)

    assert caught.value.field == "cwd"


async def test_undeclared_and_ungranted_commands_do_not_run(tmp_path: Path) -> None:
    backend = ProcessBackend(["echo"], root=tmp_path, sandbox="off")

    for need, argv in ((("true",), ["true"]), (("true",), ["echo"]), (("*",), ["true"]), (("*",), ["/bin/echo"])):
        with pytest.raises(CommandNotAllowedError):
            await backend.open(need, SCOPE).run(argv)
    assert (await backend.open(("echo",), SCOPE).run(["echo", "*", "$HOME"])).stdout == "* $HOME\n"


async def test_a_shell_is_a_grant_of_its_own(tmp_path: Path) -> None:
    with_shell = ProcessBackend(["echo"], root=tmp_path, shell=True, sandbox="off")

    with pytest.raises(CommandNotAllowedError):
        await ProcessBackend(["*"], root=tmp_path, sandbox="off").open(("*",), SCOPE).run("echo hi")
    with pytest.raises(CommandNotAllowedError):
        await with_shell.open(("echo",), SCOPE).run("echo hi")
    assert (await with_shell.open(("sh",), SCOPE).run("echo hi | tr h H")).stdout == "Hi\n"


async def test_a_program_that_cannot_start_says_why(tmp_path: Path) -> None:
    root = tmp_path
    (root / "plain").write_text("no program")
    (root / "nonsense").write_bytes(b"\x00\x01\x02")
    (root / "nonsense").chmod(0o755)
    (root / "lost").write_text("#!/no/such/interpreter\n")
    (root / "lost").chmod(0o755)
    cases = {
        "no-such-program": ProgramNotFoundError,
        f"{root}/missing": ProgramNotFoundError,
        f"{root}/lost": ProgramNotFoundError,
        f"{root}/plain": ProgramNotExecutableError,
        f"{root}/nonsense": ProgramNotExecutableError,
        f"{root}": ProgramNotExecutableError,
    }
    process = handle(root, commands=["*", *cases])

    for command, kind in cases.items():
        with pytest.raises(kind) as caught:
            await process.run([command])
        assert caught.value.command == command


async def test_arguments_beyond_what_the_system_takes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentsTooLongError):
        await handle(tmp_path).run(["echo", "x" * 5_000_000])


async def test_many_commands_run_side_by_side(tmp_path: Path) -> None:
    # Each waits until all are there.
    code = "import os, sys, time\nopen(sys.argv[1], 'w')\nwhile len(os.listdir('.')) < 8: time.sleep(0.01)\n"
    (tmp_path / "meet").mkdir()
    process = handle(tmp_path)
    codes: list[int | None] = []

    async def one(name: str) -> None:
        codes.append((await run_python(process, code, name, cwd="meet")).exit_code)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(one, str(number))

    assert codes == [0] * 8


async def test_no_descriptor_of_the_host_is_left_open_or_reaches_the_command(tmp_path: Path) -> None:
    process = handle(tmp_path)
    code = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd')))"
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        done = await run_python(process, code)
        before = open_descriptors()
        await run_python(process, code, stdin=b"x")

        assert done.stdout == "[0, 1, 2, 3]\n"  # the last is the listing itself
        assert open_descriptors() == before


async def test_files_it_makes_are_for_their_owner_and_signals_are_as_the_system_gives_them(tmp_path: Path) -> None:
    code = "import os,re; open('made','w'); print(re.search('SigIgn:\\t(.*)', open('/proc/self/status').read())[1])"
    process = handle(tmp_path)

    await run_python(process, code)
    status = await process.run(["grep", "-E", "SigIgn|SigBlk|NoNewPrivs", "/proc/self/status"])

    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o600
    facts = {name: int(value, 16) for name, value in (line.split() for line in status.stdout.splitlines())}
    # Signals 32 and 33 are the C library's own: they cannot be set, so they stay as this test inherited them.
    the_librarys = (1 << 31) | (1 << 32)
    assert {name: value & ~the_librarys for name, value in facts.items()} == {
        "SigBlk:": 0,
        "SigIgn:": 0,
        "NoNewPrivs:": 1,
    }


@pytest.mark.slow
async def test_a_command_that_kills_its_launcher_is_an_error_and_dies_too(tmp_path: Path) -> None:
    code = HOLD + "hold('lock'); os.kill(os.getppid(), 9); time.sleep(60)"

    with anyio.fail_after(30):
        with pytest.raises(ProcessStartError):
            await run_python(handle(tmp_path), code)

        await anyio.to_thread.run_sync(wait_until_free, tmp_path / "lock")


def wait_until_free(path: Path) -> None:
    """Wait for the lock: a killed process lets go of it a moment after the signal."""
    import fcntl

    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)


@pytest.mark.parametrize(
    "options", [{"sandbox": "maybe"}, {"read_paths": ["data"]}, {"write_paths": "/tmp"}, {"commands": "git"}]
)
def test_a_bad_grant_is_refused_while_setting_up(options: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(CapabilityError):
        ProcessBackend(**{"commands": ["git"], "root": tmp_path, **options})  # pyright: ignore[reportArgumentType] - that is the test
