"""Paths are judged by their text alone, before anything is opened."""

from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.capabilities.files import OneWay, Places, check_new_names, parse_path, shown
from spindle.capabilities.files.paths import NOTHING, FileVersion, ReadTracker
from spindle.errors import CapabilityError, PathNotReachableError


def one_way(declared: list[str], granted: list[str] | None = None) -> OneWay:
    return OneWay("read", Places(declared, what="files.read"), Places(["."] if granted is None else granted, what="x"))


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (".", ()),
        ("./", ()),
        ("data", ("data",)),
        ("data/", ("data",)),
        ("./data//a.txt", ("data", "a.txt")),
        ("data/./a.txt", ("data", "a.txt")),
        ("~/a", ("~", "a")),
        ("...", ("...",)),
        ("a\\..\\b", ("a\\..\\b",)),
        ("．．/a", ("．．", "a")),
        ("data／a", ("data／a",)),
        ("%2e%2e/a", ("%2e%2e", "a")),
        ("$HOME/a", ("$HOME", "a")),
        ("a b/ c", ("a b", " c")),
        ("bad-\udcff-byte", ("bad-\udcff-byte",)),
    ],
)
def test_a_path_is_its_names_and_nothing_in_them_is_expanded(path: str, names: tuple[str, ...]) -> None:
    assert parse_path(path).names == names


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/etc/passwd",
        "//etc/passwd",
        "..",
        "../",
        "../a",
        "a/..",
        "a/../b",
        "./../a",
        "a/./../../b",
        "a\0",
        "\0",
        "a/\0/b",
        "\ud800",
        "a/\udbff",
        "x" * 256,
        "é" * 128,
        "a/" * 2048 + "b",
        ".spindle-0.draft",
        "a/.spindle-00ff.draft/b",
    ],
)
def test_escaping_and_invalid_paths_are_refused_by_their_given_name(path: str) -> None:
    with pytest.raises(PathNotReachableError) as caught:
        parse_path(path)

    assert caught.value.path == path
    assert caught.value.field == "files"


@pytest.mark.parametrize("path", [None, 3, b"data", ["data"], object()])
def test_a_value_that_is_not_text_is_refused(path: Any) -> None:
    with pytest.raises(PathNotReachableError):
        parse_path(path)


def test_a_path_object_is_taken_as_its_text() -> None:
    assert parse_path(PurePosixPath("data/a.txt")).names == ("data", "a.txt")


def test_a_last_slash_says_folder() -> None:
    assert parse_path("data/").is_folder
    assert not parse_path("data").is_folder


@pytest.mark.parametrize(
    ("declared", "granted", "path", "reachable"),
    [
        (["data"], ["."], "data", True),
        (["data"], ["."], "data/a/b", True),
        (["data"], ["."], "datas/a", False),
        (["data"], ["."], "dat", False),
        (["data"], ["."], "Data/a", False),
        (["data"], ["."], ".", False),
        (["data"], [], "data/a", False),
        ([], ["."], "data/a", False),
        (["."], ["data"], "data/a", True),
        (["."], ["data"], "out/a", False),
        (["data/a"], ["data"], "data/a/x", True),
        (["data/a"], ["data"], "data/b", False),
        (["data"], ["data/a"], "data/a/x", True),
        (["data"], ["data/a"], "data/b", False),
        (["data"], ["data/a"], "data", False),
        (["a", "b"], ["b", "c"], "b/x", True),
        (["a", "b"], ["b", "c"], "a/x", False),
        (["notes.txt"], ["."], "notes.txt", True),
        (["./data/"], ["data//"], "data/x", True),
        (["cafe\u0301"], ["."], "caf\u00e9/x", False),
    ],
)
def test_a_call_reaches_what_is_both_declared_and_granted(
    declared: list[str], granted: list[str], path: str, reachable: bool
) -> None:
    way = one_way(declared, granted)

    if reachable:
        assert way.judge(path).given == path
        return
    with pytest.raises(PathNotReachableError) as caught:
        way.judge(path)
    assert caught.value.path == path


NAME = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAME, max_size=3).map(lambda names: "/".join(names) or ".")


@given(st.lists(PATHS, max_size=3), st.lists(PATHS, max_size=3), PATHS)
def test_the_reported_reach_is_the_actual_reach(declared: list[str], granted: list[str], path: str) -> None:
    way = one_way(declared, granted)
    both = ["/".join(top) or "." for top in way.declared.within(way.granted)]

    try:
        way.judge(path)
        reachable = True
    except PathNotReachableError:
        reachable = False

    assert reachable == Places(both, what="x").covers(parse_path(path).names)


def test_a_refusal_names_what_is_reachable() -> None:
    way = one_way(["data", "notes"], ["data/public"])

    assert "'data/public'" in str(way)
    assert "notes" not in str(way)
    assert "nothing" in str(one_way(["data"], ["out"]))
    assert "6 more" in str(one_way([f"d{n}" for n in range(26)]))


@pytest.mark.parametrize("bad", [["/etc"], ["../up"], ["a/../.."], [""], ["\0"]])
def test_a_declared_or_granted_path_that_leads_out_is_refused(bad: list[str]) -> None:
    with pytest.raises(CapabilityError):
        Places(bad, what="files.read")


def test_one_text_is_not_a_list_of_paths() -> None:
    with pytest.raises(CapabilityError) as caught:
        Places("data", what="files.read")

    assert caught.value.field == "files"


@pytest.mark.parametrize("path", ["a\nb", "out/\x1b[2J", "in\u202egpj.exe", "a\u2066b", "a\x85b"])
def test_new_names_that_do_not_show_what_they_are_are_refused(path: str) -> None:
    with pytest.raises(PathNotReachableError):
        check_new_names(parse_path(path))


@pytest.mark.parametrize("path", ["نیم\u200cفاصله.txt", "👩\u200d💻.md", "naïve.txt", "日本語"])
def test_new_names_of_every_script_are_fine(path: str) -> None:
    check_new_names(parse_path(path))


@given(st.text())
def test_a_path_is_shown_on_one_short_line(path: str) -> None:
    quoted = shown(path * 50)

    assert quoted.isprintable()
    assert len(quoted) <= 201


FILE = ("s1", ("a.txt",))
OLD, NEW = FileVersion.of(b"old"), FileVersion.of(b"new")


def test_a_file_never_read_is_unknown_also_after_it_was_written() -> None:
    memory = ReadTracker()
    memory.record_write(FILE, NEW)

    assert memory.get_last_version(FILE) is None


def test_read_files_are_tracked_in_their_session_only() -> None:
    memory = ReadTracker()
    memory.record_read(FILE, OLD, began=memory.begin())

    assert memory.get_last_version(FILE) == OLD
    assert memory.get_last_version(("s2", ("a.txt",))) is None


def test_a_write_replaces_what_was_read() -> None:
    memory = ReadTracker()
    memory.record_read(FILE, NOTHING, began=memory.begin())
    memory.record_write(FILE, NEW)

    assert memory.get_last_version(FILE) == NEW


def test_a_reading_that_began_before_the_sessions_own_write_does_not_undo_it() -> None:
    memory = ReadTracker()
    memory.record_read(FILE, OLD, began=memory.begin())
    began = memory.begin()
    memory.record_write(FILE, NEW)
    memory.record_read(FILE, OLD, began=began)

    assert memory.get_last_version(FILE) == NEW


def test_a_reading_that_began_after_it_does() -> None:
    memory = ReadTracker()
    memory.record_read(FILE, OLD, began=memory.begin())
    memory.record_write(FILE, NEW)
    memory.record_read(FILE, OLD, began=memory.begin())

    assert memory.get_last_version(FILE) == OLD


def test_the_memory_is_bounded_and_forgets_what_was_used_longest_ago() -> None:
    memory = ReadTracker(max_files=2)
    for session in ("s1", "s2", "s1", "s3"):
        memory.record_read((session, ("a.txt",)), OLD, began=memory.begin())

    assert [memory.get_last_version((session, ("a.txt",))) for session in ("s1", "s2", "s3")] == [OLD, None, OLD]


def test_contents_of_equal_size_are_distinguished() -> None:
    assert FileVersion.of(b"abc") == FileVersion.of(b"abc")
    assert FileVersion.of(b"abc") != FileVersion.of(b"abd")
    assert FileVersion.of(b"") != NOTHING
