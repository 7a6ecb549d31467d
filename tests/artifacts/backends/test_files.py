import errno
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from textwrap import dedent

import anyio
import pytest

from spindle.artifacts.backends.files import FileStore
from spindle.artifacts.spool import Spool
from spindle.errors import ArtifactGoneError, SpoolError

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]


def kept_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def kinds(folder: Path) -> list[str]:
    return sorted(path.suffix for path in kept_files(folder))


async def text_of(spool: Spool, name: str) -> bytes | None:
    reader = await spool.read(name)
    return None if reader is None else await reader.read_all()


async def test_only_the_owner_can_read_what_is_kept(tmp_path: Path) -> None:
    old_mask = os.umask(0)
    try:
        await Spool.files(tmp_path / "deep" / "spool").write("id", "secret")
    finally:
        os.umask(old_mask)

    files = kept_files(tmp_path)
    folders = [tmp_path / "deep" / "spool", *{path.parent for path in files}]
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600, 0o600]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


async def test_names_on_disk_reveal_nothing_and_cannot_escape(tmp_path: Path) -> None:
    await Spool.files(tmp_path / "spool").write("../../secret-name", "x")

    assert not any("secret" in path.name for path in kept_files(tmp_path))
    assert kinds(tmp_path / "spool") == kinds(tmp_path) == [".data", ".note"]


async def test_another_process_sees_what_this_one_wrote(tmp_path: Path) -> None:
    await Spool.files(tmp_path).write("id", "a\nb", turn_id="t")
    code = f"""
        import anyio
        from spindle.artifacts.spool import Spool
        async def main():
            reader = await Spool.files({str(tmp_path)!r}).read("id")
            print(await reader.read_lines(1, 2), (await Spool.files({str(tmp_path)!r}).stats()).count)
        anyio.run(main)
    """

    done = await anyio.run_process([sys.executable, "-c", dedent(code)])

    assert done.stdout.decode().strip() == "['b'] 1"


async def test_a_deleted_artifact_says_so_to_its_readers(tmp_path: Path) -> None:
    spool = Spool.files(tmp_path)
    old = await spool.write("id", "old")
    new = await spool.write("id", "new")

    await spool.delete("id")

    assert kept_files(tmp_path) == []
    for reader in (old, new):
        with pytest.raises(ArtifactGoneError):
            await reader.read_all()
        with pytest.raises(ArtifactGoneError):
            async with reader.local_path():
                pass


async def test_a_replaced_version_stays_while_it_is_read_here(tmp_path: Path) -> None:
    spool = Spool(FileStore(tmp_path, replaced_seconds=-1))
    old = await spool.write("id", "old")
    await spool.write("id", "new")

    await spool.stats()
    assert await old.read_all() == b"old"

    del old
    await spool.stats()
    assert kinds(tmp_path) == [".data", ".note"]
    assert await text_of(spool, "id") == b"new"


async def test_a_replaced_version_stays_a_while_for_other_processes(tmp_path: Path) -> None:
    await Spool.files(tmp_path).write("id", "old")
    elsewhere = await Spool.files(tmp_path).read("id")
    here = Spool.files(tmp_path)
    await here.write("id", "new")

    await here.stats()

    assert elsewhere is not None
    assert await elsewhere.read_all() == b"old"


async def test_the_folder_itself_may_be_lent_to_an_engine(tmp_path: Path) -> None:
    reader = await Spool.files(tmp_path).write("id", "a,b\n1,2\n")

    async with reader.local_path() as path:
        assert path in kept_files(tmp_path)

    assert await reader.line(1) == "1,2"


@pytest.mark.parametrize("damage", ["cut", "flip", "grow", "empty", "foreign"])
async def test_a_damaged_note_is_never_trusted(tmp_path: Path, damage: str) -> None:
    spool = Spool.files(tmp_path)
    await spool.write("id", "a\n" * 100_000)
    note = next(path for path in kept_files(tmp_path) if path.suffix == ".note")
    whole = note.read_bytes()
    middle = len(whole) // 2
    note.write_bytes(
        {
            "cut": whole[:-1],
            "flip": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "grow": whole + b"x",
            "empty": b"",
            "foreign": b"# a note of somebody else\n",
        }[damage]
    )

    assert await spool.read("id") is None
    assert (await spool.stats()).count == 0
    await spool.write("id", "new")
    assert await text_of(spool, "id") == b"new"


@pytest.mark.parametrize("damage", ["cut", "grow", "gone"])
async def test_bytes_that_do_not_fit_their_note_are_not_read(tmp_path: Path, damage: str) -> None:
    spool = Spool.files(tmp_path)
    await spool.write("id", "0123456789")
    data = next(path for path in kept_files(tmp_path) if path.suffix == ".data")
    match damage:
        case "cut":
            os.truncate(data, 9)
        case "grow":
            os.truncate(data, 11)
        case _:
            data.unlink()

    assert await spool.read("id") is None


async def test_bytes_cut_under_a_reader_are_an_error_not_an_answer(tmp_path: Path) -> None:
    reader = await Spool.files(tmp_path).write("id", "0123456789")
    os.truncate(next(path for path in kept_files(tmp_path) if path.suffix == ".data"), 5)

    with pytest.raises(SpoolError):
        await reader.read_all()


async def test_a_note_moved_to_another_id_is_not_believed(tmp_path: Path) -> None:
    spool = Spool.files(tmp_path)
    await spool.write("a", "of a")
    await spool.write("b", "of b")
    notes = {path.parent.name: path for path in kept_files(tmp_path) if path.suffix == ".note"}
    first, second = notes.values()
    first.write_bytes(second.read_bytes())

    assert {await text_of(spool, "a"), await text_of(spool, "b")} in ({None, b"of a"}, {None, b"of b"})


async def test_drafts_of_dead_writers_are_swept_and_those_of_living_ones_are_not(tmp_path: Path) -> None:
    started, go_on = anyio.Event(), anyio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"x" * 2_000_000
        started.set()
        await go_on.wait()

    living = Spool.files(tmp_path)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(living.write, "slow", slow())
            await started.wait()
            (draft,) = kept_files(tmp_path)
            for suffix in ("draft", "note.draft"):
                (draft.parent / f"{'0' * 64}.dead.{suffix}").write_bytes(b"half")

            await Spool.files(tmp_path).write("other", "y")

            assert kinds(tmp_path) == [".data", ".draft", ".note"]
            go_on.set()

    assert await text_of(living, "slow") == b"x" * 2_000_000


@pytest.mark.parametrize("ending", [".draft", ".note.draft"])
async def test_a_draft_that_is_swept_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    create, swept = os.open, list[str]()

    def create_and_sweep(path: str, flags: int, mode: int = 0o777) -> int:
        handle = create(path, flags, mode)
        if os.fspath(path).endswith(ending) and not swept:
            swept.append(os.fspath(path))
            Path(path).unlink()  # as another process does that finds no lock on it
        return handle

    spool = Spool.files(tmp_path)
    monkeypatch.setattr(os, "open", create_and_sweep)
    await spool.write("id", "x" * 2_000_000)

    assert swept
    assert await text_of(Spool.files(tmp_path), "id") == b"x" * 2_000_000


async def failure_of(act: Awaitable[object]) -> SpoolError | None:
    try:
        await act
    except SpoolError as error:
        return error
    return None


def fail_at(monkeypatch: pytest.MonkeyPatch, act: str, nth: int, error: int) -> list[int]:
    """Make the `nth` call of an act of the system fail, after it wrote a half; counts the calls."""
    real = getattr(os, act)
    calls: list[int] = []

    def faulty(*args: object, **options: object) -> object:
        calls.append(1)
        if len(calls) == nth:
            if act == "write":
                handle, data = args
                real(handle, bytes(data)[: len(bytes(data)) // 2])  # pyright: ignore[reportArgumentType] - a buffer
            raise OSError(error, os.strerror(error))
        return real(*args, **options)

    monkeypatch.setattr(os, act, faulty)
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("act", ["write", "fsync", "rename", "open"])
async def test_a_disk_that_fails_at_any_call_keeps_the_older_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str, error: int
) -> None:
    new = "new\n" * 1_000_000
    for nth in range(1, 30):
        folder = tmp_path / f"{nth}"
        spool = Spool.files(folder)
        await spool.write("id", "old")
        with monkeypatch.context() as patch:
            calls = fail_at(patch, act, nth, error)
            failure = await failure_of(spool.write("id", new))
        found = await text_of(Spool.files(folder), "id")
        if failure is None:
            assert found == new.encode()
        else:
            assert isinstance(failure.__cause__, OSError)
            assert failure.__cause__.errno == error
            # The last act makes the rename durable: when only that fails, the new version is there, whole.
            assert found in {b"old", new.encode()}
        assert not [kind for kind in kinds(folder) if kind == ".draft"]
        if len(calls) < nth:
            assert nth > 1
            return
    pytest.fail("the write never ran through")


async def test_a_system_that_takes_little_at_a_time_gets_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda handle, data: real(handle, bytes(data)[:70_001]))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - stands in for os.write
        reader = await Spool.files(tmp_path).write("id", "line\n" * 500_000)

    assert await reader.read_all() == b"line\n" * 500_000
    assert await reader.line_count() == 500_001


async def test_disk_starts_on_a_large_write_before_the_last_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, advised = os.posix_fadvise, list[tuple[int, int]]()

    def record(handle: int, start: int, count: int, advice: int) -> None:
        advised.append((start, start + count))
        real(handle, start, count, advice)

    monkeypatch.setattr(os, "posix_fadvise", record)
    reader = await Spool.files(tmp_path).write("large", (b"x" * 1_000_000 for _ in range(30)))
    await Spool.files(tmp_path).write("small", b"x" * 1_000_000)

    ends = [end for _, end in advised]
    assert [start for start, _ in advised] == [0, *ends[:-1]]
    assert all(8 << 20 <= end - start < 10 << 20 for start, end in advised)
    assert 30_000_000 - ends[-1] < 10 << 20
    assert await reader.byte_length() == 30_000_000


@pytest.mark.parametrize("is_missing", [True, False])
async def test_system_that_takes_no_advice_gets_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_missing: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EINVAL, "not this kind of file")

    if is_missing:
        monkeypatch.delattr(os, "posix_fadvise")
    else:
        monkeypatch.setattr(os, "posix_fadvise", refuse)

    reader = await Spool.files(tmp_path).write("id", b"x\n" * 10_000_000)

    assert await reader.line_count() == 10_000_001


async def test_a_path_that_is_not_a_folder_is_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(SpoolError):
        await Spool.files(tmp_path / "file").write("id", "x")


KILLED = """
    import os, signal, sys
    import anyio
    from spindle.artifacts.spool import Spool

    folder, torn_at = sys.argv[1], float(sys.argv[2])
    acts = ("write", "fsync", "rename", "open", "close", "utime", "unlink", "mkdir")
    countdown = 0

    def deadly(act, real):
        def call(*args, **options):
            global countdown
            countdown -= 1
            if countdown == 0:
                if act == "write":
                    data = bytes(args[1])
                    real(args[0], data[: int(len(data) * torn_at)])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **options)
        return call

    async def write(content):
        await Spool.files(folder).write("id", content)

    anyio.run(write, "old" * 300_000)
    nth = 0
    while True:
        nth += 1
        child = os.fork()
        if child == 0:
            countdown = nth
            for act in acts:
                setattr(os, act, deadly(act, getattr(os, act)))
            async def main():
                await write(f"new {nth}\\n" * 300_000)
            anyio.run(main)
            os._exit(0)
        was_killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

        async def check():
            spool = Spool.files(folder)
            reader = await spool.read("id")
            text = (await reader.read_all()).decode()
            first = text.split("\\n")[0] + "\\n"
            assert text == "old" * 300_000 or text == first * 300_000, (nth, len(text))
            assert await reader.line_count() == text.count("\\n") + 1
            await spool.stats()
            for path, _, names in os.walk(folder):
                assert not [name for name in names if name.endswith(".draft")], names
            return text
        text = anyio.run(check)
        if not was_killed:
            assert text == f"new {nth}\\n" * 300_000
            print(nth)
            break
"""


@pytest.mark.parametrize(
    "torn_at", [0.5, *(pytest.param(part, marks=pytest.mark.slow) for part in (0.0, 0.000_001, 0.999_999, 1.0))]
)
def test_a_writer_killed_at_any_call_never_leaves_a_torn_artifact(tmp_path: Path, torn_at: float) -> None:
    command = [sys.executable, "-c", dedent(KILLED), str(tmp_path), str(torn_at)]

    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 15


@pytest.mark.parametrize("place", ["taken", "taken/spool"])
async def test_a_spool_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path, place: str) -> None:
    (tmp_path / "taken").write_text("a file")

    with pytest.raises(SpoolError):
        await Spool.files(tmp_path / place).entries()
    assert await Spool.files(tmp_path / "new").entries() == []
