"""Files read and changed through the executor, on a real folder."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle import ToolContext
from spindle.errors import PathNotReachableError, StaleWriteError
from spindle.kit.files import apply_patch, decode_text
from tests.kit.calling import Workshop

pytestmark = pytest.mark.anyio


def lines(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(1, count + 1))


async def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\n\nlast")

    result = await Workshop(tmp_path).ok("read_file", path="a.txt")

    assert result.value == "one\r\ntwo\n\nlast"
    assert result.structured == {"path": "a.txt", "encoding": "utf-8", "total_lines": 4, "note": None}
    assert not result.trusted


@pytest.mark.parametrize(
    ("start", "end", "shown"),
    [(2, 3, "line 2\nline 3\n"), (None, 1, "line 1\n"), (4, None, "line 4\nline 5\n"), (5, 99, "line 5\n")],
)
async def test_a_range_counts_from_one_and_includes_its_end(
    tmp_path: Path, start: int | None, end: int | None, shown: str
) -> None:
    (tmp_path / "a.txt").write_text(lines(5))

    assert (await Workshop(tmp_path).ok("read_file", path="a.txt", start_line=start, end_line=end)).value == shown


@pytest.mark.parametrize(
    ("start", "end", "field"), [(6, None, "start_line"), (3, 2, "end_line"), (0, None, "start_line")]
)
async def test_a_range_that_is_not_there_is_refused(
    tmp_path: Path, start: int | None, end: int | None, field: str
) -> None:
    (tmp_path / "a.txt").write_text(lines(5))

    error = await Workshop(tmp_path).err("read_file", path="a.txt", start_line=start, end_line=end)

    assert (error.code, error.field) == ("input_invalid", field)


async def test_an_empty_file_is_an_empty_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"")

    assert (await Workshop(tmp_path).ok("read_file", path="a.txt", start_line=1)).value == ""


async def test_the_reducer_shows_exactly_200_lines_and_counts_right(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(lines(1240))
    workshop = Workshop(tmp_path, reduced=True)

    whole = await workshop.ok("read_file", path="a.txt")
    part = await workshop.ok("read_file", path="a.txt", start_line=201, end_line=900)

    hint, *shown = whole.value.split("\n")
    assert hint == "File is 1240 lines. Showing lines 1-200. Call read_file with start_line/end_line for more."
    assert "\n".join(shown) + "\n" == lines(200)
    assert part.value == "".join(lines(900).splitlines(keepends=True)[200:])


async def test_a_note_is_not_a_line_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("é\n".encode("latin-1") * 300)

    note, hint, *shown = (await Workshop(tmp_path, reduced=True).ok("read_file", path="a.txt")).value.split("\n")

    assert "Latin-1" in note
    assert hint.startswith("File is 300 lines.")
    assert shown == ["é"] * 200


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1"])
async def test_text_is_read_and_patched_in_its_own_encoding(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.txt").write_bytes("größe: klein\n".encode(encoding))
    workshop = Workshop(tmp_path)

    read = await workshop.ok("read_file", path="a.txt")
    await workshop.ok("patch_file", path="a.txt", old="klein", new="übergroß")

    assert read.structured["encoding"] == encoding
    assert read.value.endswith("größe: klein\n")
    assert (tmp_path / "a.txt").read_bytes() == "größe: übergroß\n".encode(encoding)


async def test_text_beyond_an_encoding_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("größe".encode("latin-1"))

    error = await Workshop(tmp_path).err("patch_file", path="a.txt", old="gr", new="→")

    assert (error.code, error.field) == ("input_invalid", "new")
    assert (tmp_path / "a.txt").read_bytes() == "größe".encode("latin-1")


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\0\0\0", b"\x00" * 10, bytes(range(256)) * 3, b"\xff\xfeabc"])
async def test_a_binary_file_is_named_and_not_shown(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.bin").write_bytes(data)
    workshop = Workshop(tmp_path)

    for error in (
        await workshop.err("read_file", path="a.bin"),
        await workshop.err("patch_file", path="a.bin", old="a", new="b"),
    ):
        assert (error.code, error.field) == ("execution_failed", "path")
        assert "binary" in error.error
        assert str(len(data)) in error.error


async def test_a_file_is_written_with_its_folders(tmp_path: Path) -> None:
    result = await Workshop(tmp_path).ok("write_file", path="deep/er/a.txt", content="größe\nzwei")

    assert (tmp_path / "deep" / "er" / "a.txt").read_bytes() == "größe\nzwei".encode()
    assert result.structured == {"path": "deep/er/a.txt", "bytes": 12}


async def test_a_file_changed_since_it_was_read_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    workshop = Workshop(tmp_path)
    await workshop.ok("read_file", path="a.txt")
    (tmp_path / "a.txt").write_text("somebody else's")

    error = await workshop.err("write_file", path="a.txt", content="mine")

    assert error.code == "stale_write"
    assert isinstance(error.cause, StaleWriteError)
    assert (tmp_path / "a.txt").read_text() == "somebody else's"


async def test_a_place_may_be_written_that_may_not_be_read(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, read=["in"], write=["out"])

    await workshop.ok("write_file", path="out/a.txt", content="x")
    error = await workshop.err("read_file", path="out/a.txt")

    assert isinstance(error.cause, PathNotReachableError)
    assert (tmp_path / "out" / "a.txt").read_text() == "x"


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "link/secret"])
@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("read_file", {}),
        ("write_file", {"content": "x"}),
        ("patch_file", {"old": "a", "new": "b"}),
        ("list_dir", {}),
        ("search_files", {"pattern": "x"}),
    ],
)
async def test_no_tool_leaves_the_workspace(tmp_path: Path, path: str, tool: str, more: dict[str, str]) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("a secret")
    (root / "link").symlink_to(tmp_path)

    error = await Workshop(root).err(tool, path=path, **more)

    assert "a secret" not in error.error
    assert (tmp_path / "secret").read_text() == "a secret"


async def test_a_patch_replaces_all_of_as_many_as_were_said(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b\na\n")
    workshop = Workshop(tmp_path)

    refused = await workshop.err("patch_file", path="a.txt", old="a", new="x")
    before = (tmp_path / "a.txt").read_text()
    done = await workshop.ok("patch_file", path="a.txt", old="a", new="x", count=2)

    assert (refused.code, refused.field, before) == ("input_invalid", "old", "a b\na\n")
    assert (tmp_path / "a.txt").read_text() == "x b\nx\n"
    assert done.structured == {"path": "a.txt", "replaced": 2}


async def test_two_patches_of_one_file_in_a_batch_both_happen(tmp_path: Path) -> None:
    from spindle import Call

    (tmp_path / "a.txt").write_text("one two")
    calls = [
        Call("c1", "patch_file", {"path": "a.txt", "old": "one", "new": "1"}),
        Call("c2", "patch_file", {"path": "./a.txt", "old": "two", "new": "2"}),
    ]

    outcomes = await Workshop(tmp_path).executor.execute_parallel(calls, ToolContext())

    assert all(outcome.ok for outcome in outcomes)
    assert (tmp_path / "a.txt").read_text() == "1 2"


async def test_a_folder_is_listed_with_kinds_and_sizes(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "a.txt").write_text("12345")
    (tmp_path / "bad\nname").write_text("")
    (tmp_path / "link").symlink_to("/etc")

    result = await Workshop(tmp_path).ok("list_dir")

    assert result.value.split("\n") == ["src/", "a.txt  5 bytes", "bad\\nname  0 bytes", "link  (symlink)"]
    assert result.structured[0] == {"name": "src", "kind": "folder", "bytes": result.structured[0]["bytes"]}


async def test_a_folder_that_is_missing_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    workshop = Workshop(tmp_path)

    assert (await workshop.ok("list_dir", path="empty")).value == "(empty)"
    assert (await workshop.err("list_dir", path="gone")).code == "execution_failed"


async def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    workshop, ctx = Workshop(tmp_path), ToolContext(dry_run=True)

    for name, args in (("write_file", {"content": "b"}), ("patch_file", {"old": "a", "new": "b"})):
        result = await workshop.call(name, ctx=ctx, path="a.txt", **args)
        assert result.ok

    assert (tmp_path / "a.txt").read_text() == "a"


@given(st.text("ab\n", max_size=30), st.text("ab\n", min_size=1, max_size=3), st.text("abc", max_size=3))
def test_a_patch_replaces_every_occurrence_or_nothing(text: str, old: str, new: str) -> None:
    count = text.count(old)

    done = apply_patch(text, old, new, max(count, 1))

    assert done.text == (text.replace(old, new) if count and old != new else None)
    assert apply_patch(text, old, new, count + 1 if count else 2).text is None


@pytest.mark.parametrize(
    ("text", "old", "said"),
    [
        ("x\na\na\n", "a", "found 2 times, not 1: at 2, 3"),
        ("x\n", "y", "not found"),
        ("if x:\n    y = 1\n", "if x:\n  y = 1", "line 1, but with different spaces"),
        ("\n\nHello there\n", "hello THERE", "line 3, but with different upper and lower case"),
        ("a\ndef f():\n    return 1\n", "def f():\n    return 2", "first line occurs at 2"),
        ("same", "same", "the same text"),
    ],
)
def test_a_patch_that_does_not_fit_says_where_to_look(text: str, old: str, said: str) -> None:
    done = apply_patch(text, old, "same" if text == "same" else "new", 1)

    assert done.text is None
    assert said in done.message


def test_many_places_are_listed_in_part() -> None:
    assert "and 80 more" in apply_patch("a\n" * 100, "a", "b", 1).message


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        ("a\r\nb\r\n", "a\nb", "c\nd", "c\r\nd\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "c", "c\r\n"),
        ("a\r\nb\r\n", "b", "c\nd", "a\r\nc\r\nd\r\n"),
        ("a\nb\r\n", "a\nb", "c", "c\r\n"),
    ],
)
def test_a_file_keeps_its_line_ends(text: str, old: str, new: str, result: str) -> None:
    assert apply_patch(text, old, new, 1).text == result


@given(st.text(), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]))
def test_text_that_is_read_is_written_back_byte_for_byte(text: str, encoding: str) -> None:
    data = text.encode(encoding)
    found = decode_text(data)

    if found is None:
        assert encoding == "utf-8"
        assert "\0" in text
    else:
        assert found.encode(found.text) == data


def test_a_mark_of_utf_16_and_a_zero_is_not_taken_for_one_of_utf_32() -> None:
    found = decode_text("\x000".encode("utf-16"))

    assert found is not None
    assert (found.text, found.encoding) == ("\x000", "utf-16")


@given(st.binary())
def test_bytes_that_are_read_are_never_lost(data: bytes) -> None:
    found = decode_text(data)

    assert found is None or found.encode(found.text) == data


@pytest.mark.parametrize(
    ("data", "encoding"),
    [(b"plain", "utf-8"), (b"caf\xe9 au lait", "latin-1"), (b"\xfe\xff\0a", "utf-16"), (b"", "utf-8")],
)
def test_the_encoding_is_detected(data: bytes, encoding: str) -> None:
    found = decode_text(data)

    assert found is not None
    assert found.encoding == encoding
    assert (found.note is None) == (encoding == "utf-8")


@pytest.mark.parametrize("data", [b"\0", b"a" * 100 + b"\0", b"\xff\xfe\xff", b"\x01\x02\x03\xff" * 20])
def test_binary_content_has_no_encoding(data: bytes) -> None:
    assert decode_text(data) is None
