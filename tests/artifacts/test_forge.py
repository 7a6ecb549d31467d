from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from pydantic import BaseModel

from spindle import Tool, ToolContext, ToolRegistry
from spindle.artifacts.artifact import Artifact
from spindle.artifacts.forge import ReaderTool, collect_artifacts, forge_all
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.markdown.artifact import MarkdownArtifact
from spindle.artifacts.queries import Bounds, query
from spindle.artifacts.table_artifact import TableArtifact
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


def test_without_artifacts_nothing_is_forged() -> None:
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


def test_each_tool_names_the_calls_it_can_read() -> None:
    ctx = turn(Record("t", TEXT), Record("j", DATA), Record("r", DATA, from_artifact_tool=True), Record("x", "text"))
    forged = JsonArtifact.forge_tools(ctx)

    assert schema(forged, "artifact_head")["properties"]["call_id"]["enum"] == ["t", "j"]
    assert schema(forged, "artifact_json_get")["properties"]["call_id"]["enum"] == ["j"]


def test_forged_tools_are_ephemeral_untrusted_readers_that_replace() -> None:
    for tool in Artifact.forge_tools(turn(Record("t", TEXT))):
        assert isinstance(tool, ReaderTool)
        assert (tool.ephemeral, tool.on_collision, tool.trusted, tool.read_only) == (True, "replace", False, True)
        assert Tool.is_tool(tool)


@pytest.mark.parametrize(
    ("name", "arguments", "required"),
    [
        ("artifact_head", {"n"}, []),
        ("artifact_tail", {"n"}, []),
        ("artifact_grep", {"pattern", "flags", "before", "after", "limit"}, ["pattern"]),
        ("artifact_cat", {"start", "end"}, []),
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
def test_the_arguments_of_each_tool(name: str, arguments: set[str], required: list[str]) -> None:
    told = schema(forge_all(turn(Record("j", DATA), Record("m", PAGE), Record("s", SHEET))), name)

    assert set(told["properties"]) == {"call_id"} | arguments
    assert told["required"] == ["call_id", *required]
    assert told["additionalProperties"] is False


def test_the_dialect_of_grep_is_told() -> None:
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
async def test_what_a_model_reads(name: str, args: dict[str, Any], text: str) -> None:
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
async def test_arguments_that_do_not_fit_are_refused(name: str, args: dict[str, Any]) -> None:
    forged = forge_all(turn(Record("t", TEXT), Record("j", DATA), Record("m", PAGE), Record("s", SHEET)))

    with pytest.raises(InvalidToolArgsError):
        await call(forged, name, **args)


async def test_what_cannot_be_answered_is_an_error_and_no_text() -> None:
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


async def test_an_artifact_of_another_class_by_then_is_an_error() -> None:
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


def test_an_address_that_means_two_things_is_refused() -> None:
    with pytest.raises(ArtifactIdCollisionError):
        Artifact.forge_tools(turn(Record("c", (TEXT, DATA)), Record("c#1", TEXT)))


async def test_of_two_calls_with_one_id_the_later_is_read() -> None:
    ctx = turn(Record("c", TEXT), Record("c", Artifact.from_text("later")))

    assert list(collect_artifacts(ctx)) == ["c"]
    assert await call(Artifact.forge_tools(ctx), "artifact_head", call_id="c") == "later"


@pytest.mark.parametrize("ctx", [None, object(), 5])
def test_something_that_is_no_context_is_refused(ctx: Any) -> None:
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


async def test_an_unexpected_failure_is_an_error_that_tells_no_secrets() -> None:
    forged = LogArtifact.forge_tools(turn(Record("l", LogArtifact.from_text("x"))))

    error = await failure(forged, "log_crash", call_id="l")
    assert "secret" not in error.message
    assert isinstance(error.__cause__, OSError)


async def test_answers_are_bounded_and_say_how_to_go_on() -> None:
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


async def test_an_answer_obeys_the_budget_of_its_call() -> None:
    forged = Artifact.forge_tools(turn(Record("c", Artifact.from_text("word " * 10_000))))

    text = await call(forged, "artifact_cat", ctx=ToolContext(result_budget_chars=1000), call_id="c")
    assert len(text) <= 1000
    assert "more follow" in text


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
