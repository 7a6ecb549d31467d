"""Whatever a path looks like, it leads to what is in reach or nowhere."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.capabilities.files import Place
from spindle.capabilities.files.backend import FilesBackend, FilesHandle
from spindle.errors import CallError
from tests.capabilities.reaching import contents, handle, trapped
from tests.fuzzing import draw_seeds, examples

WAYS_OUT = ["link", "up", "secret", "relative", "private", "inner", "dangling", "loop", "chain", "root", "cwd"]
SPECIAL = ["hard", "fifo", "socket", "dev", "zero", "proc", "self", "environ", "etc", "passwd"]
PLAIN = ["data", "out", "sub", "a.txt", "b.txt", "secret.txt", "deep", "outside", "new", "data", "out"]
DOTS = ["..", ".", "", "..", "...", ".. ", "..\0", "\0", "．．", "\u2025", "%2e%2e", "..\\..", "~", "C:", "-rf"]
ODD = ["\udc2e", "\ud800", "\udcff", "\u202e", "e\u0301", "\u200d", "\n", "x" * 256, "é" * 100, ".spindle-.draft"]
STARTS = ["data/", "out/", "data/", "out/", "", "/", "../", "./", "//", "data/sub/", "out/./"]
# Mostly made of names that mean something here: of random text hardly any would get past the first judge.
NAMES = [*WAYS_OUT, *SPECIAL, *PLAIN, *DOTS, *ODD]
ANY = st.one_of(st.text(max_size=20), st.text(alphabet="./\\~data\0", max_size=12))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One root full of ways out for all examples; they write, and what they wrote stays in `out`."""
    # So deep that no example has enough names to climb out of it, should one ever climb.
    folder = tmp_path_factory.mktemp("fuzz").joinpath(*"123456789")
    place = trapped(folder)
    before = contents(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder / "outside")  # where /proc/self/cwd leads
        patch.setattr(os, "fsync", int)  # where things go is tried here, not whether they outlive a power cut
        yield place
    after = {path: data for path, data in contents(folder).items() if not path.startswith("root/out/")}
    assert after == {path: data for path, data in before.items() if not path.startswith("root/out/")}


def judged(files: FilesHandle, path: str, *, write: bool) -> Place | None:
    try:
        return (files.writable if write else files.readable).judge(path)
    except CallError:
        return None


def try_everything(root: Path, path: str) -> None:
    """Use a path in every way, and check where each led."""
    backend = FilesBackend(root, read=["data", "out"], write=["out", "elsewhere"])
    files = handle(backend, read=["data"], write=["out"])
    disk, memory = backend.disk, backend.read_tracker
    reading, writing = judged(files, path, write=False), judged(files, path, write=True)
    if reading is not None:
        assert reading.names[0] == "data"
        for look in (disk.read, disk.stat, disk.list_entries):
            found = answered(root, lambda look=look: look(reading))
            assert not isinstance(found, bytes) or found == b"inside"
    if writing is not None:
        assert writing.names[0] == "out"
        known_as = ("s", writing.names)
        for change in (
            lambda: disk.make_folder(writing, may_make=files.writable.granted.covers),
            lambda: disk.write(
                writing, b"written", may_make=files.writable.granted.covers, read_tracker=memory, session_file=known_as
            ),
            lambda: disk.remove(writing, read_tracker=memory, session_file=known_as),
        ):
            answered(root, change)


def answered(root: Path, act: Callable[[], object]) -> object:
    """What `act` gives, or its refusal, which must not reveal the path of the root."""
    try:
        return act()
    except CallError as error:
        if str(root) in str(error):
            raise
        return None


def some_path(seed: int) -> str:
    random = Random(seed)
    return random.choice(STARTS) + "/".join(random.choices(NAMES, k=random.randint(0, 5)))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_path_finds_a_way_out(root: Path) -> None:
    for seed in draw_seeds(30_000):
        try_everything(root, some_path(seed))


@settings(max_examples=examples(1_000), deadline=None)
@given(path=ANY)
def test_no_text_finds_a_way_out(root: Path, path: str) -> None:
    try_everything(root, path)


def test_the_traps_are_real(root: Path) -> None:
    """Without our care the same paths do lead out."""
    for path in ("data/link/secret.txt", "data/secret", "data/relative", "data/hard", "data/up/private/secret.txt"):
        assert (root / path).read_bytes() == (root.parent / "outside" / "secret.txt").read_bytes()
    assert (root / "data" / "cwd" / "secret.txt").read_bytes() == (root / "data" / "root" / "secret.txt").read_bytes()
