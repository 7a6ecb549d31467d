from typing import Any

import pytest

from spindle.artifacts.backends.memory import BytesReader
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.json_path import PathLimits
from spindle.errors import ArtifactQueryError, InvalidArtifactError

pytestmark = pytest.mark.anyio

LINES = '{"id": 1, "tags": ["a"]}\n\n{"id": 2, "name": "x"}\n  \n[3]\n"four"\n'


class CountingReader(BytesReader):
    """Counts what is read, to prove that little is."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.lines_read = 0
        self.whole_reads = 0

    async def read_lines(self, start: int, end: int) -> list[str]:
        self.lines_read += end - start
        return await super().read_lines(start, end)

    async def read_all(self) -> bytes:
        self.whole_reads += 1
        return await super().read_all()


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
async def test_the_format_is_told_from_the_content(text: str, kind: str) -> None:
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
        (LINES, ["id", "tags", "name"]),
        ("1\n2", None),
    ],
)
async def test_keys_are_those_of_the_root_or_of_all_records(text: str, keys: list[str] | None) -> None:
    assert await JsonArtifact.from_text(text).keys() == keys


@pytest.mark.parametrize(("text", "length"), [("[1, 2, 3]", 1), ("{}", 1), ("{a: 1}", 1), (LINES, 4)])
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
    assert await JsonArtifact.from_text("[1, 2]").filter("$[?@ > 1]") == [[1, 2]]


@pytest.mark.parametrize(
    ("start", "end"), [(None, None), (0, 2), (1, None), (2, 99), (3, 1), (-2, None), (None, -1), (-99, 2), (99, None)]
)
async def test_slice_is_a_list_slice_of_the_records(start: int | None, end: int | None) -> None:
    records = [{"id": 1, "tags": ["a"]}, {"id": 2, "name": "x"}, [3], "four"]

    assert await JsonArtifact.from_text(LINES).slice(start, end) == records[start:end]


async def test_slice_gives_a_document_whole() -> None:
    assert await JsonArtifact.from_text("[1, 2, 3]").slice(0, 1) == [1, 2, 3]


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
    assert len(await artifact.head(5)) == 5
    assert len(await artifact.slice(100, 103)) == 3
    assert len(await artifact.get("$.id", limit=3)) == 3
    assert len(await artifact.grep('"id": 1', limit=2)) == 2
    assert reader.whole_reads == 0
    assert reader.lines_read < 45_000


async def test_a_document_that_is_too_large_is_refused_before_it_is_read() -> None:
    class Small(JsonArtifact):
        max_document_bytes = 1000

    reader = CountingReader(b"[\n" + b"1,\n" * 1000 + b"1]")
    with pytest.raises(InvalidArtifactError):
        await Small(reader).get("$[0]")
    assert reader.whole_reads == 0


async def test_the_work_of_a_path_is_bounded_by_the_class() -> None:
    class Hasty(JsonArtifact):
        path_limits = PathLimits(max_steps=2_000)

    with pytest.raises(ArtifactQueryError):
        await Hasty.from_text("[" + ",".join(["[1]"] * 5000) + "]").get("$..*")


async def test_json_counts_as_machine_text() -> None:
    text = '{"story": "' + "once there was a wheel that turned " * 30 + '"}'

    assert await JsonArtifact.from_text(text).estimate_tokens() == -(-len(text) // 2)
