import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import BaseModel

from spindle import DispatchContext, Tool, ToolCallRecord, ToolContext, ToolRegistry
from spindle.artifacts.artifact import Artifact
from spindle.artifacts.forge import ReaderSession, ReaderTool, collect_artifacts, forge_all
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.markdown.artifact import MarkdownArtifact
from spindle.artifacts.queries import Bounds, query
from spindle.artifacts.table_artifact import TableArtifact
from spindle.artifacts.tokens import register_counter
from spindle.errors import (
    ArtifactIdCollisionError,
    ArtifactQueryError,
    InvalidContextError,
    InvalidToolArgsError,
    ToolDownstreamError,
)

pytestmark = pytest.mark.anyio

LINES = ["head", "tail", "grep", "cat", "byte_length", "line_count", "estimate_tokens"]
OUTLINE = ["frontmatter", "headings", "sections", "code_blocks", "links", "images", "text", "ast"]
ROWS = ["columns", "row_count", "rows", "filter", "select", "sort", "group_counts"]
BASE = [f"artifact_{name}" for name in LINES]
JSON = [f"artifact_json_{name}" for name in ["type", "keys", "length", "get", "filter", "pluck", "slice"]]
MARKDOWN = [f"artifact_md_{name}" for name in OUTLINE]
TABLE = [f"artifact_table_{name}" for name in ROWS]


@dataclass(frozen=True)
class Record:
    id: str
    results: object
    from_artifact_tool: bool = False


@dataclass
class Turn:
    tool_calls: list[Record] = field(default_factory=list[Record])


def listed(registry: ToolRegistry) -> list[str]:
    return [tool.name for tool in registry]


def turn(*records: Record) -> Turn:
    return Turn(list(records))


async def call(registry: ToolRegistry, name: str, /, *, ctx: ToolContext | None = None, **args: Any) -> str:
    tool = registry.get(name)
    assert tool is not None
    return await tool.executor(ctx or ToolContext())(args)


async def failure(registry: ToolRegistry, name: str, /, **args: Any) -> ArtifactQueryError:
    with pytest.raises(ToolDownstreamError) as caught:
        await call(registry, name, **args)
    cause = caught.value.__cause__
    assert isinstance(cause, ArtifactQueryError)
    return cause


def schema(registry: ToolRegistry, name: str) -> dict[str, Any]:
    tool = registry.get(name)
    assert tool is not None
    return tool.describe()["input_schema"]


TEXT = Artifact.from_text("zero\none\ntwo\n")
DATA = JsonArtifact.from_text('{"id": 1}\n{"id": 2, "name": "x"}\n')
PAGE = MarkdownArtifact.from_text("# A\n[l](u)\n```\ncode\n```\n")
SHEET = TableArtifact.from_text("a,b\n1,x\n2,y\n")


def test_no_tools_are_forged_without_artifacts() -> None:
    for ctx in (turn(), turn(Record("c", "text")), turn(Record("c", TEXT, from_artifact_tool=True))):
        assert len(Artifact.forge_tools(ctx)) == 0
        assert len(forge_all(ctx)) == 0


def test_a_class_forges_its_own_tools_and_those_of_its_bases() -> None:
    ctx = turn(Record("t", TEXT), Record("j", DATA), Record("m", PAGE), Record("s", SHEET))

    assert listed(Artifact.forge_tools(ctx)) == BASE
    assert listed(JsonArtifact.forge_tools(ctx)) == BASE + JSON
    assert listed(MarkdownArtifact.forge_tools(ctx)) == BASE + MARKDOWN
    assert listed(TableArtifact.forge_tools(ctx)) == BASE + TABLE
    assert sorted(listed(forge_all(ctx))) == sorted(BASE + JSON + MARKDOWN + TABLE)


def test_with_no_artifact_of_a_class_only_the_tools_of_its_bases_are_forged() -> None:
    assert listed(JsonArtifact.forge_tools(turn(Record("t", TEXT)))) == BASE


def test_tool_forged_by_hand_lists_the_calls_it_can_read() -> None:
    ctx = turn(Record("t", TEXT), Record("j", DATA), Record("r", DATA, from_artifact_tool=True), Record("x", "text"))
    forged = JsonArtifact.forge_tools(ctx)

    assert schema(forged, "artifact_head")["properties"]["call_id"]["enum"] == ["t", "j"]
    assert schema(forged, "artifact_json_get")["properties"]["call_id"]["enum"] == ["j"]


def test_forged_tools_are_ephemeral_untrusted_readers_that_replace() -> None:
    for tool in Artifact.forge_tools(turn(Record("t", TEXT))):
        assert tool.is_artifact_reader
        assert (tool.ephemeral, tool.on_collision, tool.trusted, tool.read_only) == (True, "replace", False, True)
        assert Tool.is_tool(tool)


@pytest.mark.parametrize(
    ("name", "arguments", "required"),
    [
        ("artifact_head", {"n"}, []),
        ("artifact_tail", {"n"}, []),
        ("artifact_grep", {"pattern", "flags", "before", "after", "limit"}, ["pattern"]),
        ("artifact_cat", {"start", "end", "start_char", "end_char"}, []),
        ("artifact_byte_length", set[str](), []),
        ("artifact_line_count", set[str](), []),
        ("artifact_estimate_tokens", {"encoding"}, []),
        ("artifact_json_type", set[str](), []),
        ("artifact_json_keys", set[str](), []),
        ("artifact_json_length", set[str](), []),
        ("artifact_json_get", {"path"}, ["path"]),
        ("artifact_json_filter", {"path"}, ["path"]),
        ("artifact_json_pluck", {"path"}, ["path"]),
        ("artifact_json_slice", {"start", "end"}, []),
        ("artifact_md_frontmatter", set[str](), []),
        ("artifact_md_headings", {"depth"}, []),
        ("artifact_md_sections", {"depth"}, []),
        ("artifact_md_code_blocks", {"lang"}, []),
        ("artifact_md_links", {"start_line", "end_line"}, []),
        ("artifact_md_images", {"start_line", "end_line"}, []),
        ("artifact_md_text", {"start_line", "end_line"}, []),
        ("artifact_md_ast", {"start_line", "end_line"}, []),
        ("artifact_table_columns", set[str](), []),
        ("artifact_table_row_count", set[str](), []),
        ("artifact_table_rows", {"start", "end"}, []),
        ("artifact_table_filter", {"column", "op", "value", "limit"}, ["column", "op"]),
        ("artifact_table_select", {"columns", "start", "end"}, ["columns"]),
        ("artifact_table_sort", {"column", "descending", "limit"}, ["column"]),
        ("artifact_table_group_counts", {"column", "limit"}, ["column"]),
    ],
)
def test_forged_tool_has_the_expected_arguments(name: str, arguments: set[str], required: list[str]) -> None:
    reported = schema(forge_all(turn(Record("j", DATA), Record("m", PAGE), Record("s", SHEET))), name)

    assert set(reported["properties"]) == {"call_id"} | arguments
    assert reported["required"] == ["call_id", *required]
    assert reported["additionalProperties"] is False


@pytest.mark.parametrize(
    ("kind", "max_chars"),
    # Four characters are about a token: at most 600 tokens for text, and 1,100 with JSON.
    [(Artifact, 2_400), (JsonArtifact, 4_400), (MarkdownArtifact, 4_800), (TableArtifact, 4_800)],
)
def test_the_definitions_of_a_turns_readers_are_short(kind: type[Artifact], max_chars: int) -> None:
    tools = ToolRegistry(ReaderSession(turn(), kinds=[kind]).tools())

    assert len(json.dumps(tools.to_definitions(), separators=(",", ":"))) <= max_chars


async def test_readers_of_a_turn_list_no_encodings_and_refuse_unknown_ones_by_name() -> None:
    readers = ReaderSession(turn(Record("t", Artifact.from_text("one two")))).extend(ToolRegistry())

    assert schema(readers, "artifact_estimate_tokens")["properties"]["encoding"] == {"type": ["string", "null"]}
    assert await call(readers, "artifact_estimate_tokens", call_id="t", encoding="o200k_base") == "2"
    with pytest.raises(ToolDownstreamError) as caught:
        await call(readers, "artifact_estimate_tokens", call_id="t", encoding="nobody's")
    assert "o200k_base" in str(caught.value.__cause__)


def test_description_of_grep_names_its_dialect() -> None:
    tool = Artifact.forge_tools(turn(Record("t", TEXT))).get("artifact_grep")

    assert tool is not None
    assert "RE2" in tool.description
    assert "look-around" in tool.description


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("artifact_head", {"call_id": "t", "n": 2}, "zero\none"),
        ("artifact_head", {"call_id": "t"}, "zero\none\ntwo\n"),
        ("artifact_tail", {"call_id": "t", "n": 2}, "two\n"),
        ("artifact_grep", {"call_id": "t", "pattern": "o$"}, "0: zero\n2: two"),
        ("artifact_grep", {"call_id": "t", "pattern": "ONE", "flags": "i", "after": 1}, "1: one\n2: two"),
        ("artifact_grep", {"call_id": "t", "pattern": "nothing", "flags": ""}, "(empty list)"),
        ("artifact_cat", {"call_id": "t", "start": 1, "end": 2}, "one"),
        ("artifact_cat", {"call_id": "t", "start": None, "end": 1}, "zero"),
        ("artifact_byte_length", {"call_id": "t"}, "13"),
        ("artifact_line_count", {"call_id": "t"}, "4"),
        ("artifact_estimate_tokens", {"call_id": "t", "encoding": "cl100k_base"}, "4"),
        ("artifact_json_type", {"call_id": "j"}, "jsonl"),
        ("artifact_json_keys", {"call_id": "j"}, "id\nname"),
        ("artifact_json_keys", {"call_id": "array"}, "(undefined)"),
        ("artifact_json_length", {"call_id": "j"}, "2"),
        ("artifact_json_get", {"call_id": "j", "path": "$.id"}, "[\n  1,\n  2\n]"),
        ("artifact_json_get", {"call_id": "j", "path": "$.zzz"}, "(empty list)"),
        ("artifact_json_filter", {"call_id": "j", "path": "$.name"}, '[\n  {\n    "id": 2,\n    "name": "x"\n  }\n]'),
        ("artifact_json_pluck", {"call_id": "j", "path": "$.name"}, "x"),
        ("artifact_json_slice", {"call_id": "j", "end": 1}, '[\n  {\n    "id": 1\n  }\n]'),
        ("artifact_json_slice", {"call_id": "null"}, "null"),
        ("artifact_md_frontmatter", {"call_id": "m"}, "(undefined)"),
        ("artifact_md_code_blocks", {"call_id": "m", "lang": "py"}, "(empty list)"),
        ("artifact_md_text", {"call_id": "m", "start_line": 1, "end_line": 2}, "l"),
        ("artifact_table_columns", {"call_id": "s"}, "a: BIGINT\nb: VARCHAR"),
        ("artifact_table_row_count", {"call_id": "s"}, "2"),
        ("artifact_table_rows", {"call_id": "s", "start": 1}, '{"a": 2, "b": "y"}'),
        ("artifact_table_filter", {"call_id": "s", "column": "b", "op": "eq", "value": "x"}, '{"a": 1, "b": "x"}'),
        ("artifact_table_sort", {"call_id": "s", "column": "a", "descending": True, "limit": 1}, '{"a": 2, "b": "y"}'),
        ("artifact_table_group_counts", {"call_id": "s", "column": "b", "limit": 1}, '{"value": "x", "count": 1}'),
    ],
)
async def test_forged_tool_returns_the_expected_text(name: str, args: dict[str, Any], text: str) -> None:
    ctx = turn(
        Record("t", TEXT),
        Record("j", DATA),
        Record("m", PAGE),
        Record("s", SHEET),
        Record("array", JsonArtifact.from_text("[1]")),
        Record("null", JsonArtifact.from_text("null")),
    )

    assert await call(forge_all(ctx), name, **args) == text


async def test_records_of_an_outline_are_read_as_json() -> None:
    forged = forge_all(turn(Record("m", PAGE)))
    assert '"heading_line": 0' in await call(forged, "artifact_md_sections", call_id="m", depth=1)
    assert '"lang": null' in await call(forged, "artifact_md_code_blocks", call_id="m", lang="")


@pytest.mark.parametrize(
    ("name", "args"),
    [
        *(("artifact_head", {"call_id": "t", "n": n}) for n in (0, "5", True)),
        ("artifact_head", {"call_id": "unknown"}),
        ("artifact_head", {}),
        ("artifact_head", {"call_id": "t", "extra": 1}),
        ("artifact_grep", {"call_id": "t"}),
        ("artifact_grep", {"call_id": "t", "pattern": ""}),
        ("artifact_grep", {"call_id": "t", "pattern": "x", "flags": "g"}),
        ("artifact_cat", {"call_id": "t", "start": -1}),
        ("artifact_estimate_tokens", {"call_id": "t", "encoding": "nobody's"}),
        ("artifact_json_get", {"call_id": "t", "path": "$"}),
        ("artifact_json_get", {"call_id": "j", "path": "$", "limit": 5}),
        ("artifact_md_headings", {"call_id": "m", "depth": 7}),
        ("artifact_table_filter", {"call_id": "s", "column": "a", "op": "; DROP", "value": 1}),
        ("artifact_table_select", {"call_id": "s", "columns": []}),
    ],
)
async def test_invalid_arguments_are_rejected(name: str, args: dict[str, Any]) -> None:
    forged = forge_all(turn(Record("t", TEXT), Record("j", DATA), Record("m", PAGE), Record("s", SHEET)))

    with pytest.raises(InvalidToolArgsError):
        await call(forged, name, **args)


async def test_failed_query_is_an_error_and_not_text() -> None:
    broken = JsonArtifact.from_text("not json")
    forged = forge_all(turn(Record("t", TEXT), Record("j", DATA), Record("b", broken), Record("s", SHEET)))

    for name, args in [
        ("artifact_grep", {"call_id": "t", "pattern": "("}),
        ("artifact_grep", {"call_id": "t", "pattern": "(?=x)"}),
        ("artifact_json_get", {"call_id": "j", "path": "id"}),
        ("artifact_json_keys", {"call_id": "b"}),
        ("artifact_table_sort", {"call_id": "s", "column": "zzz"}),
    ]:
        assert (await failure(forged, name, **args)).message


async def test_an_id_is_looked_up_when_the_tool_is_called() -> None:
    ctx = turn(Record("c", TEXT))
    live = Artifact.forge_tools(ctx)

    ctx.tool_calls[0] = Record("c", Artifact.from_text("changed"))
    assert await call(live, "artifact_head", call_id="c") == "changed"

    ctx.tool_calls[0] = Record("c", "a text by now")
    assert "c" in (await failure(live, "artifact_head", call_id="c")).message
    ctx.tool_calls.clear()
    assert (await failure(live, "artifact_head", call_id="c")).tool == "artifact_head"


async def test_artifact_replaced_by_one_of_another_class_is_an_error() -> None:
    ctx = turn(Record("c", DATA))
    forged = JsonArtifact.forge_tools(ctx)
    ctx.tool_calls[0] = Record("c", TEXT)

    assert (await failure(forged, "artifact_json_get", call_id="c", path="$")).field == "call_id"


async def test_each_of_several_artifacts_of_one_call_can_be_read() -> None:
    ctx = turn(Record("c", (TEXT, DATA)), Record("texts", ("a", "b")))
    forged = JsonArtifact.forge_tools(ctx)

    assert list(collect_artifacts(ctx)) == ["c#0", "c#1"]
    assert schema(forged, "artifact_json_get")["properties"]["call_id"]["enum"] == ["c#1"]
    assert await call(forged, "artifact_head", call_id="c#0", n=1) == "zero"


def test_ambiguous_address_is_rejected() -> None:
    with pytest.raises(ArtifactIdCollisionError):
        Artifact.forge_tools(turn(Record("c", (TEXT, DATA)), Record("c#1", TEXT)))


async def test_later_of_two_calls_with_the_same_id_is_read() -> None:
    ctx = turn(Record("c", TEXT), Record("c", Artifact.from_text("later")))

    assert list(collect_artifacts(ctx)) == ["c"]
    assert await call(Artifact.forge_tools(ctx), "artifact_head", call_id="c") == "later"


@pytest.mark.parametrize("ctx", [None, object(), 5])
def test_invalid_context_is_rejected(ctx: Any) -> None:
    with pytest.raises(InvalidContextError):
        Artifact.forge_tools(ctx)


class Span(BaseModel):
    low: int
    high: int


class LogArtifact(Artifact):
    """A user's own class."""

    @query("log_errors", "Find the errors.")
    async def errors(self, span: Span | None = None, words: Sequence[str] = ("ERROR",)) -> list[str]:
        """Give the lines with one of the words."""
        low, high = (span.low, span.high) if span else (0, None)
        return [line for line in await self.cat(low, high) if any(word in line for word in words)]

    async def head(self, n: int = 10) -> list[str]:
        """Overridden without a word to the model."""
        return [line.upper() for line in await super().head(n)]

    @query("log_crash", "Fails.")
    async def crash(self) -> str:
        raise OSError("/secret/place/of/the/spool")


async def test_a_subclass_adds_queries_by_decorating_methods() -> None:
    log = LogArtifact.from_text("ERROR a\nok\nWARN b")
    forged = LogArtifact.forge_tools(turn(Record("l", log), Record("t", TEXT)))

    assert listed(forged) == [*BASE, "log_errors", "log_crash"]
    assert schema(forged, "log_errors")["properties"]["call_id"]["enum"] == ["l"]
    assert await call(forged, "log_errors", call_id="l") == "ERROR a"
    assert await call(forged, "log_errors", call_id="l", span={"low": 1, "high": 9}, words=["WARN"]) == "WARN b"
    assert await call(forged, "artifact_head", call_id="l", n=1) == "ERROR A"
    assert await call(forged, "artifact_head", call_id="t", n=1) == "zero"


async def test_unexpected_failure_is_an_error_without_its_details() -> None:
    forged = LogArtifact.forge_tools(turn(Record("l", LogArtifact.from_text("x"))))

    error = await failure(forged, "log_crash", call_id="l")
    assert "secret" not in error.message
    assert isinstance(error.__cause__, OSError)


async def test_answers_are_bounded_and_say_how_to_get_the_rest() -> None:
    lines = Artifact.from_text("\n".join(f"line {n}" for n in range(5000)))
    forged = Artifact.forge_tools(turn(Record("c", lines)), bounds=Bounds(max_items=3))

    asked: list[tuple[str, dict[str, Any]]] = [
        ("artifact_head", {"n": 4000}),
        ("artifact_tail", {"n": 4000}),
        ("artifact_cat", {"start": 7}),
        ("artifact_grep", {"pattern": "line"}),
    ]
    for name, args in asked:
        text = await call(forged, name, call_id="c", **args)
        assert len(text.split("\n")) == 4
        assert ("more come before" if name == "artifact_tail" else "more follow") in text
    assert "start=10" in await call(forged, "artifact_cat", call_id="c", start=7)


async def test_answer_fits_the_budget_of_its_call() -> None:
    forged = Artifact.forge_tools(turn(Record("c", Artifact.from_text("word\n" * 10_000))))

    text = await call(forged, "artifact_cat", ctx=ToolContext(result_budget_chars=1000), call_id="c")
    assert len(text) <= 1000
    assert "more follow" in text


@pytest.mark.parametrize("budget", [400, 1_000, 80_000])
async def test_long_line_fits_the_budget_of_its_call(budget: int) -> None:
    forged = Artifact.forge_tools(turn(Record("c", Artifact.from_text("word " * 40_000))))
    ctx = ToolContext(result_budget_chars=budget)

    asked: list[tuple[str, dict[str, Any]]] = [
        ("artifact_cat", {}),
        ("artifact_head", {}),
        ("artifact_tail", {}),
        ("artifact_grep", {"pattern": "d w"}),
    ]
    for name, args in asked:
        assert len(await call(forged, name, ctx=ctx, call_id="c", **args)) <= min(budget, 2_000)
    page = await call(forged, "artifact_cat", ctx=ctx, call_id="c", start_char=5)
    assert len(page) <= budget
    assert "more follow; ask again with start_char=" in page


WORDS = " ".join(f"word{n}" for n in range(20_000))


async def test_long_line_is_shown_by_its_ends_with_how_to_read_on() -> None:
    forged = Artifact.forge_tools(turn(Record("c", Artifact.from_text(f"short\n{WORDS}\nlast"))))

    asked: list[tuple[str, dict[str, Any]]] = [
        ("artifact_head", {}),
        ("artifact_tail", {}),
        ("artifact_cat", {"start": 1, "end": 2}),
    ]
    for name, args in asked:
        text = await call(forged, name, call_id="c", **args)
        assert WORDS[:1_000] in text
        assert WORDS[-500:] in text
        assert f"{len(WORDS) - 1_500} bytes left out; artifact_cat start=1, start_char=1000" in text
        assert len(text) < 1_700


async def test_page_of_a_long_line_is_read_by_its_characters() -> None:
    forged = Artifact.forge_tools(turn(Record("c", Artifact.from_text(f"short\n{WORDS}\nlast"))))

    assert (
        await call(forged, "artifact_cat", call_id="c", start=1, start_char=1_000, end_char=1_050) == WORDS[1_000:1_050]
    )
    assert await call(forged, "artifact_cat", call_id="c", start=1, end_char=3) == WORDS[:3]
    assert await call(forged, "artifact_cat", call_id="c", end=3, start_char=1, end_char=3) == f"ho\n{WORDS[1:3]}\nas"
    pages: list[str] = []
    start_char: int | None = 0
    while start_char is not None:
        page = await call(forged, "artifact_cat", call_id="c", start=1, start_char=start_char)
        text, _, note = page.partition("\n")
        pages.append(text)
        start_char = int(note.rpartition("start_char=")[2].rstrip("]")) if note else None
    assert "".join(pages) == WORDS


async def test_match_in_a_long_line_is_shown_with_its_column() -> None:
    forged = Artifact.forge_tools(turn(Record("c", Artifact.from_text(f"word7777\n{WORDS}\nlast"))))

    short, long = (await call(forged, "artifact_grep", call_id="c", pattern="word7777")).split("\n")

    assert short == "0: word7777"
    place, _, part = long.partition(": ")
    assert place == f"1, char {WORDS.index('word7777')}"
    assert part.strip("…") in WORDS
    assert "word7777" in part
    assert len(part) <= 502
    near = await call(forged, "artifact_grep", call_id="c", pattern="last", before=1)
    assert "bytes left out; artifact_cat start=1, start_char=250 reads on" in near
    assert len(near) < 520


async def test_lines_of_a_method_that_a_class_overrides_are_shown_as_it_returns_them() -> None:
    log = LogArtifact.from_text("word " * 1_000)
    forged = LogArtifact.forge_tools(turn(Record("l", log)))

    assert await call(forged, "artifact_head", call_id="l") == "WORD " * 1_000


async def test_forge_merge_and_bind_work_together() -> None:
    acked: list[Any] = []

    @dataclass
    class Ackable(Turn):
        is_signalled: bool = False

        def on_ack(self, handler: Any) -> Any:
            acked.append(handler)
            return lambda: acked.remove(handler)

    ctx = Ackable([Record("c", TEXT)])
    main = ToolRegistry(
        [Tool(name="artifact_head", description="mine", input_schema={"type": "object"}, handler=print)]
    )
    merged = ToolRegistry.merge([main, Artifact.forge_tools(ctx)])
    merged.bind_context(cast("Any", ctx))

    assert isinstance(merged.get("artifact_head"), ReaderTool)
    for handler in acked:
        handler()
    assert len(merged) == 0
    assert len(main) == 1


def turn_with(text: str) -> DispatchContext:
    kept = Artifact.from_text(text)
    call = ToolCallRecord(id="c", tool="t", args={}, checksum="x", is_complete=True, is_error=False, results=kept)
    return DispatchContext(tool_calls=[call])


async def test_a_reader_reads_the_turn_it_is_called_in() -> None:
    one, other = turn_with("one"), turn_with("other")
    head = Artifact.forge_tools(one).get("artifact_head")
    assert head is not None

    assert await head.executor(one)({"call_id": "c"}) == "one"
    assert await head.executor(other)({"call_id": "c"}) == "other"
    assert await head.executor(ToolContext())({"call_id": "c"}) == "one"
    with pytest.raises(ToolDownstreamError) as caught:
        await head.executor(DispatchContext())({"call_id": "c"})
    assert isinstance(caught.value.__cause__, ArtifactQueryError)
    assert caught.value.__cause__.field == "call_id"


async def test_reader_forged_for_another_holder_reads_that_holder_in_every_turn() -> None:
    holder: Any = SimpleNamespace(tool_calls=turn_with("held").tool_calls)
    head = Artifact.forge_tools(holder).get("artifact_head")
    assert head is not None

    assert await head.executor(turn_with("other"))({"call_id": "c"}) == "held"


async def test_truncated_tail_keeps_the_last_line() -> None:
    turn = turn_with("\n".join(f"{number} {'x' * 200}" for number in range(1_000)))
    tail = Artifact.forge_tools(turn).get("artifact_tail")
    assert tail is not None

    *lines, note = (await tail.executor(turn)({"call_id": "c", "n": 900})).split("\n")
    assert lines[-1].startswith("999 ")
    assert lines[0].startswith(f"{1_000 - len(lines)} ")
    assert note.startswith(f"[{len(lines)} items shown, more come before")


def test_registered_encoding_is_listed_by_estimate_tokens() -> None:
    def reported() -> list[str]:
        tool = Artifact.forge_tools(turn_with("text")).get("artifact_estimate_tokens")
        assert tool is not None
        return tool.describe()["input_schema"]["properties"]["encoding"]["anyOf"][0]["enum"]

    undo = register_counter("ours", len)
    try:
        assert "ours" in reported()
    finally:
        undo()
    assert "ours" not in reported()
