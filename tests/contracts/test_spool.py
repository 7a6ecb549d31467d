"""What every backend of the spool must do: one suite, run over all of them."""

import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle import Spool
from spindle.artifacts import BLOCK_BYTES, Match, Search, SpoolReader
from spindle.errors import ArtifactQueryError, UsageError

pytestmark = pytest.mark.anyio

NASTY_IDS = [
    "",
    ".",
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "a/b/c",
    "a\\b",
    "nul\x00byte",
    "line\nbreak",
    "C:\\con",
    "\U0001f600",
    "e\u0301",
    "\u00e9",
    "lone \ud800 surrogate",
    "x" * 10_000,
    "call_1",
    "CALL_1",
    "Call_1",
    "%2e%2e%2f",
    "notes/x",
    "data/x/y",
    " ",
]


@dataclass
class FakeClock:
    """Time that moves when the test says so."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(
    params=[
        "memory",
        "files",
        "objects-memory",
        "objects-folder",
        pytest.param("moto_bucket", marks=pytest.mark.slow),
        pytest.param("seaweedfs_bucket", marks=pytest.mark.slow),
    ]
)
def spool(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Spool:
    match request.param:
        case "memory":
            return Spool.memory(clock=clock)
        case "files":
            return Spool.files(tmp_path / "spool", clock=clock)
        case "objects-memory":
            return Spool.objects("memory:///", clock=clock)
        case "objects-folder":
            return Spool.objects((tmp_path / "objects").as_uri(), clock=clock)
        case _:
            make_bucket: Callable[[], tuple[str, dict[str, Any]]] = request.getfixturevalue(request.param)
            url, options = make_bucket()
            return Spool.objects(url, clock=clock, **options)


async def lines_of(reader: SpoolReader) -> list[str | None]:
    return [await reader.line(i) for i in range(await reader.line_count())]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\nb\n", ["a", "b", ""]),
        ("\n", ["", ""]),
        ("a\r\nb\r\n", ["a\r", "b\r", ""]),
        ("a\x0bb\x0cc\x1cd\x85e\u2028f", ["a\x0bb\x0cc\x1cd\x85e\u2028f"]),
        ("\ufeffhead\nbody", ["head", "body"]),
        (b"\xef\xbb\xbfhead\n\xef\xbb\xbfbody", ["head", "\ufeffbody"]),
        (b"bad \xff\xfe\nok", ["bad \ufffd\ufffd", "ok"]),
        ("lone \ud800 surrogate", ["lone \ufffd\ufffd\ufffd surrogate"]),
        (bytearray(b"x\ny"), ["x", "y"]),
        (memoryview(b"x\ny"), ["x", "y"]),
    ],
)
async def test_lines_end_at_newlines_only(
    spool: Spool, content: str | bytes | bytearray | memoryview, lines: list[str]
) -> None:
    reader = await spool.write("id", content)

    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else bytes(content)
    assert await lines_of(reader) == lines
    assert await reader.read_lines(0, 100) == lines
    assert await reader.line_count() == len(lines)
    assert await reader.byte_length() == len(raw)
    assert await reader.read_all() == raw
    assert await reader.line(-1) is None
    assert await reader.line(len(lines)) is None


async def test_written_content_can_be_opened_again(spool: Spool) -> None:
    await spool.write("id", "one\ntwo")

    reader = await spool.read("id")

    assert reader is not None
    assert await reader.read_lines(1, 2) == ["two"]
    assert await spool.read("other") is None


async def test_text_and_bytes_may_come_from_iterators(spool: Spool) -> None:
    def texts() -> Iterator[str]:
        yield from ("a", "\nb", "", "\u00e9\n")

    async def blobs() -> AsyncIterator[bytes]:
        for blob in (b"a", b"\nb", b"", b"\xc3", b"\xa9\n"):
            await anyio.lowlevel.checkpoint()
            yield blob

    for content in (texts(), blobs(), ["a\n", "b\u00e9\n"]):
        reader = await spool.write("id", content)
        assert await reader.read_all() == "a\nb\u00e9\n".encode()

    assert await (await spool.write("none", iter([]))).line_count() == 0


@pytest.mark.parametrize("content", [None, 5, {"a": "b"}, [1], ["a", None], object()])
async def test_anything_else_is_refused_and_keeps_nothing(spool: Spool, content: object) -> None:
    await spool.write("id", "before")

    with pytest.raises(UsageError):
        await spool.write("id", content)  # pyright: ignore[reportArgumentType] - that is the point

    reader = await spool.read("id")
    assert reader is not None
    assert await reader.read_all() == b"before"
    assert (await spool.stats()).count == 1


async def test_an_iterator_that_fails_leaves_the_older_version(spool: Spool) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"x" * 3_000_000
        raise OSError(28, "from the caller's own source")

    await spool.write("id", "before")

    with pytest.raises(OSError, match="own source"):
        await spool.write("id", failing())

    reader = await spool.read("id")
    assert reader is not None
    assert await reader.read_all() == b"before"


async def test_a_cancelled_write_keeps_nothing(spool: Spool) -> None:
    started = anyio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"x" * 2_000_000
        started.set()
        await anyio.sleep_forever()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(spool.write, "id", endless())
            await started.wait()
            tasks.cancel_scope.cancel()

    assert await spool.read("id") is None
    assert (await spool.stats()).count == 0


async def test_a_reader_keeps_its_version_when_the_id_is_written_again(spool: Spool) -> None:
    old = await spool.write("id", "old\nversion")
    new = await spool.write("id", "new")

    assert await old.read_lines(0, 9) == ["old", "version"]
    assert await new.read_lines(0, 9) == ["new"]
    assert (await spool.stats()).count == 1
    assert await old.read_all() == b"old\nversion"
    again = await spool.read("id")
    assert again is not None
    assert await again.read_all() == b"new"


async def test_writers_of_one_id_at_once_leave_one_whole_version(spool: Spool) -> None:
    versions = [f"{n}\n" * 50_000 for n in range(4)]

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for version in versions:
                tasks.start_soon(spool.write, "id", version)

    reader = await spool.read("id")
    assert reader is not None
    assert (await reader.read_all()).decode() in versions


async def test_delete_returns_whether_it_existed(spool: Spool) -> None:
    await spool.write("id", "x")
    await spool.write("id", "y")

    assert await spool.delete("id") is True
    assert await spool.delete("id") is False
    assert await spool.read("id") is None


async def test_any_text_is_an_id_and_none_clash(spool: Spool) -> None:
    for name in NASTY_IDS:
        await spool.write(name, f"content of {len(name)} {name!r}")

    assert (await spool.stats()).count == len(NASTY_IDS)
    for name in NASTY_IDS:
        reader = await spool.read(name)
        assert reader is not None
        assert await reader.read_all() == f"content of {len(name)} {name!r}".encode()
    assert [await spool.delete(name) for name in NASTY_IDS] == [True] * len(NASTY_IDS)


async def test_an_id_that_is_not_text_is_refused(spool: Spool) -> None:
    for act in (spool.read, spool.delete):
        with pytest.raises(UsageError):
            await act(5)  # pyright: ignore[reportArgumentType] - that is the point


async def test_content_over_many_blocks_is_read_back_exactly(spool: Spool) -> None:
    text = "".join(f"{n}:" + "\u00e9" * (n % 150) + "\n" for n in range(20_000))
    expected = text.split("\n")

    reader = await spool.write("id", (text[i : i + 777] for i in range(0, len(text), 777)))

    assert await reader.byte_length() == len(text.encode()) > 20 * BLOCK_BYTES
    assert await reader.line_count() == len(expected)
    assert await reader.read_lines(0, 30_000) == expected
    for start, end in [(0, 1), (19_999, 20_001), (7_000, 7_100), (20_000, 20_001), (5, 5), (-5, 2), (9, 3)]:
        assert await reader.read_lines(start, end) == expected[max(start, 0) : max(end, 0)]
    assert [await reader.line(i) for i in (0, 1, 9_999, 20_000)] == [expected[i] for i in (0, 1, 9_999, 20_000)]
    streamed = [chunk async for chunk in reader.chunks(100_000)]
    assert b"".join(streamed) == text.encode()
    assert max(map(len, streamed)) == 100_000


async def test_a_real_file_is_lent(spool: Spool) -> None:
    reader = await spool.write("id", b"a,b\n1,2\n" * 1000)

    async with reader.local_path() as path:
        found = await anyio.Path(path).read_bytes()
        assert (await anyio.Path(path).stat()).st_mode & 0o077 == 0

    assert found == await reader.read_all()


async def test_matches_come_with_their_line_and_context(spool: Spool) -> None:
    reader = await spool.write("id", "\n".join(f"line {n}" for n in range(10_000)))

    assert await reader.search(Search(pattern="line 777$")) == [Match(777, "line 777")]
    found = await reader.search(Search(pattern="LINE (5|7)$", flags="i", before=1, after=2))
    assert [(match.line, match.is_context) for match in found] == [
        (4, True), (5, False), (6, True), (7, False), (8, True), (9, True),
    ]  # fmt: skip
    assert len(await reader.search(Search(pattern="line", limit=3))) == 3
    with pytest.raises(ArtifactQueryError):
        await reader.search(Search(pattern="(?=x)"))


async def test_stats_count_what_is_kept(spool: Spool, clock: FakeClock) -> None:
    assert (await spool.stats()).oldest is None
    await spool.write("a", "12345")
    clock.now += 10
    await spool.write("b", "123")

    stats = await spool.stats()

    assert (stats.count, stats.bytes, stats.oldest) == (2, 8, 1_000_000.0)


async def test_a_turns_artifacts_go_together(spool: Spool) -> None:
    await spool.write("a", "1", turn_id="t1")
    await spool.write("b", "2", turn_id="t1")
    await spool.write("c", "3", turn_id="t2")
    await spool.write("d", "4")

    assert await spool.delete_turn("t1") == 2
    assert await spool.delete_turn("t1") == 0
    assert [await spool.read(name) is not None for name in "abcd"] == [False, False, True, True]


async def test_the_old_and_then_the_oldest_are_pruned(spool: Spool, clock: FakeClock) -> None:
    for age, name in [(300, "a"), (200, "b"), (100, "c"), (0, "d")]:
        clock.now = 1_000_000.0 - age
        await spool.write(name, "x" * 100)
    clock.now = 1_000_000.0

    assert await spool.prune() == 0
    assert await spool.prune(max_age_seconds=250) == 1
    assert await spool.prune(max_bytes=200) == 1
    assert [await spool.read(name) is not None for name in "abcd"] == [False, False, True, True]
    assert await spool.prune(max_bytes=0) == 2
    assert (await spool.stats()).count == 0


async def test_many_artifacts_at_once_do_not_mix(spool: Spool) -> None:
    async def keep(n: int) -> None:
        body = hashlib.sha256(str(n).encode()).digest() * 1000
        await spool.write(str(n), body)
        reader = await spool.read(str(n))
        assert reader is not None
        assert await reader.read_all() == body

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for n in range(25):
                tasks.start_soon(keep, n)
    assert (await spool.stats()).count == 25
