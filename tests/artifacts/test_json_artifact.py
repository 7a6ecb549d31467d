import json
from pathlib import Path
from threading import Event, get_ident
from typing import Any

import anyio
import anyio.to_thread
import pytest

from spindle.artifacts.backends.memory import BytesReader
from spindle.artifacts.json_artifact import (
    MAX_JSON5_CHARS,
    JsonArtifact,
    is_json,
    parse_document,
    parse_json5,
    parse_record,
)
from spindle.artifacts.json_path import PathLimits
from spindle.errors import ArtifactQueryError, InvalidArtifactError

pytestmark = pytest.mark.anyio

LINES = '{"id": 1, "tags": ["a"]}\n\n{"id": 2, "name": "x"}\n  \n[3]\n"four"\n'


class CountingReader(BytesReader):
    """Counts the bytes that are read, to prove that they are few."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.bytes_read = 0

    def read_range(self, start: int, end: int) -> bytes:
        self.bytes_read += end - start
        return super().read_range(start, end)

    async def read_all(self) -> bytes:
        raise AssertionError("the whole content is never read at once")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"a": 1}', "json"),
        ('  \n{"a":\n 1}\n\n', "json"),
        ("[1, 2]", "json"),
        ("5", "json"),
        ('{"a": 1}\n', "json"),
        ('\ufeff{"a": 1}', "json"),
        ('{"a": 1}\n{"a": 2}', "jsonl"),
        ("1\n\n2\n", "jsonl"),
        ('{"a": 1}\r\n{"a": 2}\r\n', "jsonl"),
        ("{a: 1}", "json5"),
        ("[1, 2,]", "json5"),
        ("// why\n{a: 1}", "json5"),
        ('{"a": 1}\n// the end', "json5"),
    ],
)
async def test_the_format_is_detected_from_the_content(text: str, kind: str) -> None:
    assert await JsonArtifact.from_text(text).json_type() == kind


async def test_a_format_that_was_said_is_kept() -> None:
    said = JsonArtifact.from_text('{"a": 1}', format="ndjson")

    assert await said.json_type() == "ndjson"
    assert await said.slice() == [{"a": 1}]


@pytest.mark.parametrize("text", ["", " \n ", "plain words", '{"a": 1}\nplain words', "<xml/>", "{"])
async def test_content_of_no_format_is_an_error(text: str) -> None:
    with pytest.raises(InvalidArtifactError):
        await JsonArtifact.from_text(text).json_type()


async def test_an_unknown_format_is_an_error() -> None:
    unknown: Any = "yaml"
    with pytest.raises(InvalidArtifactError) as caught:
        JsonArtifact.from_text("{}", format=unknown)
    assert caught.value.field == "format"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('{"b": 1, "a": 2}', ["b", "a"]),
        ("{}", []),
        ("[1]", None),
        ("5", None),
        ('[{"b": 1}, 5, {"a": 2, "b": 3}]', ["b", "a"]),
        (LINES, ["id", "tags", "name"]),
        ("1\n2", None),
    ],
)
async def test_keys_are_those_of_the_root_or_of_all_records(text: str, keys: list[str] | None) -> None:
    assert await JsonArtifact.from_text(text).keys() == keys


@pytest.mark.parametrize(
    ("text", "length"), [("[1, 2, 3]", 3), ("[]", 0), ("{}", 1), ("5", 1), ("{a: 1}", 1), ("[1,]", 1), (LINES, 4)]
)
async def test_length_counts_records(text: str, length: int) -> None:
    assert await JsonArtifact.from_text(text).length() == length


async def test_get_and_pluck_collect_over_all_records() -> None:
    artifact = JsonArtifact.from_text(LINES)

    assert await artifact.get("$.id") == [1, 2]
    assert await artifact.pluck("$.tags[*]") == ["a"]
    assert await artifact.get("$") == [{"id": 1, "tags": ["a"]}, {"id": 2, "name": "x"}, [3], "four"]
    assert await artifact.get("$.nothing") == []
    assert await artifact.get("$.id", limit=1) == [1]


async def test_filter_gives_whole_records() -> None:
    artifact = JsonArtifact.from_text(LINES)

    assert await artifact.filter("$.name") == [{"id": 2, "name": "x"}]
    assert await JsonArtifact.from_text('{"a": [1, 2]}').filter("$.a[?@ > 1]") == [{"a": [1, 2]}]


@pytest.mark.parametrize(
    ("path", "ids"),
    [
        ("$[?@.price > 5]", [2, 3]),
        ("$[?@.price > 5].name", [2]),
        ("$[*].tags[?@ == 'a']", [1, 3]),
        ("$[-1]", [3]),
        ("$[0:2]", [1, 2]),
        ("$..price", [1, 2, 3]),
        ("$..[?@.price == 1]", [1]),
        ("$[?@.price == $[2].price]", [3]),
        ("$", [1, 2, 3]),
        ("$.name", []),
    ],
)
async def test_filter_of_an_array_gives_the_items_in_which_the_path_finds_something(path: str, ids: list[int]) -> None:
    text = """[{"id": 1, "price": 1, "tags": ["a", "b"]},
        {"id": 2, "price": 9, "name": "x"}, {"id": 3, "price": 7, "tags": ["a"]}]"""

    assert [item["id"] for item in await JsonArtifact.from_text(text).filter(path)] == ids


@pytest.mark.parametrize(
    ("start", "end"), [(None, None), (0, 2), (1, None), (2, 99), (3, 1), (-2, None), (None, -1), (-99, 2), (99, None)]
)
async def test_slice_is_a_list_slice_of_the_records(start: int | None, end: int | None) -> None:
    records = [{"id": 1, "tags": ["a"]}, {"id": 2, "name": "x"}, [3], "four"]

    assert await JsonArtifact.from_text(LINES).slice(start, end) == records[start:end]


async def test_slice_of_an_array_gives_items_and_of_another_document_all_of_it() -> None:
    assert await JsonArtifact.from_text("[1, 2, 3]").slice(0, 1) == [1]
    assert await JsonArtifact.from_text("[1, 2, 3]").slice(-2) == [2, 3]
    assert await JsonArtifact.from_text('{"a": 1}').slice(0, 1) == {"a": 1}


async def test_a_bad_path_is_a_query_error_and_a_bad_line_names_itself() -> None:
    with pytest.raises(ArtifactQueryError):
        await JsonArtifact.from_text(LINES).get("id")
    with pytest.raises(InvalidArtifactError) as caught:
        await JsonArtifact.from_text('{"a": 1}\n\nnope\n', format="jsonl").get("$.a")
    assert "line 2" in caught.value.message


async def test_long_json_lines_are_not_read_whole_to_answer_a_part() -> None:
    record = b'{"id": 1, "pad": "' + b"x" * 80 + b'"}\n'
    reader = CountingReader(record * 60_000)
    artifact = JsonArtifact(reader)

    assert await artifact.json_type() == "jsonl"
    assert len(await artifact.slice(100, 103)) == 3
    assert len(await artifact.get("$.id", limit=3)) == 3
    assert len(await artifact.filter("$.id", limit=3)) == 3
    assert reader.bytes_read < 6 << 20


ITEMS = [{"id": n, "name": f"n{n}", "price": n % 100, "tags": ["é"], "in": {"deep": [n]}} for n in range(15_000)]
ITEMS[7_000]["tags"] = ['"], {"']  # brackets inside of texts


def write_items(form: str) -> str:
    """Return a document of some megabytes."""
    match form:
        case "one line":
            return json.dumps(ITEMS)
        case "compact":
            return json.dumps(ITEMS, separators=(",", ":"), ensure_ascii=False)
        case _:
            return json.dumps(ITEMS, indent=2, ensure_ascii=False)


@pytest.mark.one_loop
@pytest.mark.parametrize(
    "form", ["pretty", *(pytest.param(form, marks=pytest.mark.slow) for form in ("one line", "compact"))]
)
async def test_a_large_array_is_queried_item_by_item(form: str) -> None:
    artifact = JsonArtifact(CountingReader(write_items(form).encode()))

    assert await artifact.json_type() == "json"
    assert await artifact.length() == len(ITEMS)
    assert await artifact.keys() == list(ITEMS[0])
    assert await artifact.slice(10_000, 10_002) == ITEMS[10_000:10_002]
    assert await artifact.slice(-1) == ITEMS[-1:]
    assert await artifact.get("$[?@.price == 99].id") == list(range(99, 15_000, 100))
    assert await artifact.filter("$[?@.in.deep[0] == 12345]") == [ITEMS[12_345]]
    assert await artifact.get("$[-1].id") == [14_999]
    assert await artifact.get("$[14998:]['name', 'id']") == ["n14998", 14_998, "n14999", 14_999]
    assert await artifact.get("$[::-5000].id") == [14_999, 9_999, 4_999]
    assert len(await artifact.get("$..deep")) == len(ITEMS)
    assert await artifact.get("$") == [ITEMS]


@pytest.mark.slow  # the array before is read by the same code
async def test_a_large_object_is_queried_member_by_member() -> None:
    value = {"meta": {"total": 3}, "items": ITEMS, "by id": {str(n): n for n in range(70_000)}, "last": None}
    artifact = JsonArtifact(CountingReader(json.dumps(value, indent=1).encode()))

    assert await artifact.length() == 1
    assert await artifact.keys() == list(value)
    assert await artifact.get("$.meta.total") == [3]
    assert await artifact.get("$.items[?@.id == $.meta.total].name") == ["n3"]
    assert await artifact.get("$['by id']['66666']") == [66_666]
    assert await artifact.get("$[?length(@) == 70000]['0']") == [0]
    assert await artifact.get("$.last") == [None]
    assert await artifact.get("$.nothing") == []
    assert await artifact.filter("$.items[0]") == [value]


async def test_the_first_items_of_a_large_document_are_found_without_reading_the_rest() -> None:
    reader = CountingReader(json.dumps(ITEMS * 3).encode())
    artifact = JsonArtifact(reader)
    await artifact.json_type()
    reader.bytes_read = 0

    assert await artifact.get("$[*].id", limit=2) == [0, 1]
    assert await artifact.slice(0, 2) == ITEMS[:2]
    assert await artifact.length() == 3 * len(ITEMS)
    assert reader.bytes_read <= 2 << 20


@pytest.mark.slow
async def test_large_content_is_read_in_small_pieces_outside_of_the_event_loop() -> None:
    class ThreadReader(CountingReader):
        def read_range(self, start: int, end: int) -> bytes:
            threads.add(get_ident())
            assert end - start <= 1 << 20
            return super().read_range(start, end)

    threads: set[int] = set()
    for text in (write_items("pretty"), "\n".join(json.dumps(item) for item in ITEMS)):
        artifact = JsonArtifact(ThreadReader(text.encode()))
        await artifact.length()
        await artifact.keys()
        await artifact.slice(10, 20)
        await artifact.get("$[?@.nothing]")

    assert threads
    assert get_ident() not in threads


async def test_a_cancelled_query_reads_no_further() -> None:
    class HeldReader(CountingReader):
        def read_range(self, start: int, end: int) -> bytes:
            if is_held.is_set():
                has_started.set()
                assert may_go_on.wait(30)
                is_held.clear()
            elif may_go_on.is_set():
                has_read_again.set()
            return super().read_range(start, end)

    is_held, has_started, may_go_on, has_read_again = Event(), Event(), Event(), Event()
    artifact = JsonArtifact(HeldReader("\n".join(json.dumps(item) for item in ITEMS * 2).encode()))
    await artifact.json_type()
    is_held.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(artifact.get, "$..nothing")
            await anyio.to_thread.run_sync(has_started.wait)
            group.cancel_scope.cancel()
    may_go_on.set()

    assert not await anyio.to_thread.run_sync(has_read_again.wait, 0.1)


NUMBERS = [1234567] * 100_000
MEMBERS = {f"k{number}": number for number in range(60_000)}


@pytest.mark.slow
@pytest.mark.parametrize("large", [pytest.param(NUMBERS, id="array"), pytest.param(MEMBERS, id="object")])
async def test_values_of_about_a_window_are_equal_wherever_they_are(large: Any) -> None:
    # The second one begins in the middle of a window, and is read member by member; the first one is not.
    items = [large, "x" * 200_000, "y" * 350_000, large, [*NUMBERS, 1], {**MEMBERS, "k1": 2}]

    found = await JsonArtifact.from_text(json.dumps(items, separators=(",", ":"))).get("$[?@ == $[0]]")

    assert found == [large, large]


async def test_a_value_that_is_too_large_is_refused_and_its_parts_are_not() -> None:
    class Small(JsonArtifact):
        max_document_bytes = 1 << 20

    artifact = Small(CountingReader(json.dumps(ITEMS).encode()))

    with pytest.raises(InvalidArtifactError):
        await artifact.get("$")
    assert await artifact.get("$[0].id") == [0]
    assert len(str(await artifact.get("$", max_chars=1000))) < 3000


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "followed by text", "broken inside"])
async def test_a_large_document_that_is_damaged_is_an_error(damage: str) -> None:
    text = json.dumps(ITEMS)
    texts = {"truncated": text[:-9], "followed by text": text + "\nend", "broken inside": text.replace("n12000", '"')}

    with pytest.raises(InvalidArtifactError):
        await JsonArtifact.from_text(texts[damage]).json_type()


async def test_with_max_chars_the_beginning_of_a_value_is_the_same() -> None:
    value: dict[str, Any] = {"a": ["x" * 50, {"b": [[0], {}, 5]}, None], "c": "y" * 5000}
    artifact = JsonArtifact.from_text(json.dumps(value))

    for max_chars in (1, 60, 200):
        [begun] = await artifact.get("$", max_chars=max_chars)
        text = json.dumps(begun)
        assert text[:max_chars] == json.dumps(value)[:max_chars]
        assert max_chars < len(text) <= max_chars + 100
    assert await artifact.get("$", max_chars=10_000) == [value]


@pytest.mark.slow
async def test_json_lines_have_long_records_odd_white_space_and_bytes_that_are_not_text() -> None:
    long_record = {"id": 2, "items": ITEMS}
    lines = [b'\xef\xbb\xbf{"id": 1}\r', json.dumps(long_record).encode(), "\u00a0".encode(), b'{"id": "\xff"}']
    artifact = JsonArtifact(CountingReader(b"\n".join(lines)))

    assert await artifact.json_type() == "jsonl"
    assert await artifact.length() == 3
    assert await artifact.get("$.id") == [1, 2, "\ufffd"]
    assert await artifact.get("$.items[14999].id") == [14_999]
    assert await artifact.slice(1, 2) == [long_record]


async def test_a_bad_line_far_into_json_lines_names_itself() -> None:
    text = ('{"id": 1, "pad": "' + "x" * 100 + '"}\n') * 30_000 + "\n\nnope\n"
    artifact = JsonArtifact.from_text(text)

    with pytest.raises(InvalidArtifactError) as caught:
        await artifact.get("$.id")
    assert "line 30002 " in caught.value.message


async def test_the_work_of_a_path_is_bounded_by_the_class() -> None:
    class Hasty(JsonArtifact):
        path_limits = PathLimits(max_steps=2_000)

    with pytest.raises(ArtifactQueryError):
        await Hasty.from_text("[" + ",".join(["[1]"] * 5000) + "]").get("$..*")


def test_integers_keep_every_digit_and_the_last_of_equal_keys_counts() -> None:
    assert parse_document("123456789012345678901234567890") == 123456789012345678901234567890
    assert parse_document('{"a": 1, "a": 2}') == {"a": 2}


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", "[1,]", "{a: 1}", "'a'", "1 2", "", "[" * 5000])
def test_only_strict_json_is_json(text: str) -> None:
    assert not is_json(text)
    with pytest.raises(InvalidArtifactError):
        parse_document(text)
    with pytest.raises(InvalidArtifactError):
        parse_record(text, 7)


def test_json5_has_comments_bare_keys_and_nan() -> None:
    value = parse_json5("{a: 1, 'b': [.5, +1,], // c\n n: NaN}")

    assert value["a"] == 1
    assert value["b"] == [0.5, 1]
    assert value["n"] != value["n"]


@pytest.mark.parametrize("text", ["{a", "", "[" * 20_000, "a" * (MAX_JSON5_CHARS + 1)])
def test_a_value_that_is_not_a_json5_is_refused(text: str) -> None:
    with pytest.raises(InvalidArtifactError):
        parse_json5(text)


def test_the_public_suite_of_json_texts_is_judged_as_it_says(shared_data: Path) -> None:
    judged = 0
    for file in sorted((shared_data / "json-test-suite" / "test_parsing").glob("[yn]_*.json")):
        try:
            text = file.read_bytes().decode()
        except UnicodeDecodeError:
            continue
        assert is_json(text) == file.name.startswith("y_"), file.name
        judged += 1
    assert judged > 200
