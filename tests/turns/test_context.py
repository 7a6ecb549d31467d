from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from spindle import Artifact, Call, DispatchContext, DispatchRunner, JsonArtifact, Reply, Spool, ToolCallRecord, tool
from spindle.errors import ArtifactIdCollisionError, InvalidRetrievableError, SpoolError
from spindle.testing import ScriptedModel
from spindle.turns.context import TurnContext
from spindle.turns.record_types import Retrievable
from spindle.turns.records import Records

pytestmark = pytest.mark.anyio


def found(id: str = "r1", content: Any = "one\ntwo", **facts: Any) -> Retrievable:
    return Retrievable(id=id, content=content, trust_tier="third-party-public", **facts)


def call(id: str, results: Any = "x") -> ToolCallRecord:
    return ToolCallRecord(id=id, tool="t", args={}, checksum="c", is_complete=True, is_error=False, results=results)


@tool
def count() -> str:
    """Count."""
    raise AssertionError("a call with a taken id must not run")


async def test_retrievable_that_is_not_inline_is_spooled_and_shown_as_an_artifact() -> None:
    spool = Spool.memory()
    ctx = DispatchContext(turn_id="t1", session_id="s1", spool=spool)

    shown = await ctx.store_retrievable(found(content='{"a": 1}', artifact_constructor=JsonArtifact))

    assert isinstance(shown.content, JsonArtifact)
    assert await shown.content.get("$.a") == [1]
    assert ctx.retrievables == (shown,)
    assert [(entry.id, entry.turn_id) for entry in await spool.entries()] == [("s1/t1/r1", "t1")]


async def test_inline_retrievable_and_artifact_are_unchanged() -> None:
    ctx = DispatchContext(spool=Spool.memory())
    inline, artifact = found("r1", inline=True), found("r2", Artifact.from_text("x"))

    assert await ctx.store_retrievable(inline) is inline
    assert await ctx.store_retrievable(artifact) is artifact
    assert ctx.turn.spool is not None
    assert await ctx.turn.spool.entries() == []


async def test_retrievable_without_a_spool_is_an_artifact_in_memory() -> None:
    ctx = DispatchContext(retrievables=[found("r0", "zero")])
    await ctx.store_retrievable(found())

    texts = [each.content for each in ctx.retrievables]
    assert [await text.as_text() for text in texts if isinstance(text, Artifact)] == ["zero", "one\ntwo"]


async def test_reader_lists_calls_first_and_each_retrievable_once() -> None:
    ctx = DispatchContext(tool_calls=[call("c1", Artifact.from_text("x"))])
    await ctx.store_retrievable(found("r1", inline=True))
    await ctx.store_retrievable(found("r2"))
    await ctx.mutate_retrievable(found("r2", "new"))

    forged = Artifact.forge_tools(ctx).get("artifact_cat")

    assert forged is not None
    assert forged.describe()["input_schema"]["properties"]["call_id"]["enum"] == ["c1", "r2"]
    assert await forged.executor(ctx.tool_context())({"call_id": "r2"}) == "new"


async def test_retrievable_of_middleware_can_be_read_in_the_same_iteration() -> None:
    async def look_up(ctx: DispatchContext, proceed: Callable[[], Awaitable[None]]) -> None:
        if not ctx.retrievables:
            await ctx.store_retrievable(found())
        await proceed()

    ctx = DispatchContext(spool=Spool.memory())
    model = ScriptedModel(Call("c1", "artifact_tail", {"call_id": "r1", "n": 1}), "done")
    await DispatchRunner.dispatch(raw=ctx, executor_callback=model, dispatch_input_pipeline=[look_up])

    assert "artifact_tail" in model.seen[0]
    [read] = ctx.tool_calls
    assert (read.results, read.is_error, read.trusted, read.from_artifact_tool) == ("two", False, False, True)
    assert ctx.tools.get("artifact_tail") is None


async def test_retrievable_with_the_id_of_a_call_is_rejected_and_not_spooled() -> None:
    spool = Spool.memory()
    ctx = DispatchContext(tool_calls=[call("c1")], spool=spool)

    for keep in (ctx.store_retrievable, ctx.mutate_retrievable):
        with pytest.raises(ArtifactIdCollisionError) as caught:
            await keep(found("c1"))
        assert (caught.value.code, caught.value.status, caught.value.fatal) == ("E_ARTIFACT_ID_COLLISION", 409, True)
    assert ctx.retrievables == ()
    assert await spool.entries() == []


async def test_call_with_the_id_of_a_retrievable_is_rejected_before_it_runs() -> None:
    ctx = DispatchContext(tools=[count], retrievables=[found("c1")])

    async def ask(ctx: DispatchContext) -> Reply:
        return Reply(calls=[Call("c0", "count", {}), Call("c1", "count", {})])

    with pytest.raises(ArtifactIdCollisionError):
        await DispatchRunner.dispatch(raw=ctx, executor_callback=ask)
    assert ctx.tool_calls == ()
    with pytest.raises(ArtifactIdCollisionError):
        await ctx.store_tool_call(call("c1"))


async def test_turn_with_a_duplicate_id_is_rejected() -> None:
    with pytest.raises(ArtifactIdCollisionError):
        TurnContext(retrievables=[found(), found()])
    with pytest.raises(ArtifactIdCollisionError):
        DispatchContext(tool_calls=[call("r1")], retrievables=[found()])


async def test_retrievable_with_the_address_of_one_of_several_results_is_rejected() -> None:
    ctx = DispatchContext(tool_calls=[call("c1", (Artifact.from_text("a"), Artifact.from_text("b")))])
    await ctx.store_retrievable(found("c1#1"))

    with pytest.raises(ArtifactIdCollisionError):
        Artifact.forge_tools(ctx)


async def test_store_gets_the_text_and_the_artifact_class(tmp_path: Any) -> None:
    class Own(JsonArtifact):
        pass

    async with Records.sqlite(tmp_path / "records.db") as records:
        turn = TurnContext(records=records, spool=Spool.memory())
        await turn.store_retrievable(found(content="[1]", artifact_constructor=lambda: Own))
        [loaded] = (await records.load(turn.id)).retrievables

    assert loaded.content == "[1]"
    assert loaded.artifact_constructor is JsonArtifact
    again = await TurnContext().store_retrievable(loaded)
    assert isinstance(again.content, JsonArtifact)


async def test_deleted_retrievable_is_deleted_from_the_spool() -> None:
    spool = Spool.memory()
    ctx = DispatchContext(spool=spool)
    await ctx.store_retrievable(found())

    await ctx.delete_retrievable("r1")

    assert ctx.retrievables == ()
    assert await spool.entries() == []


async def test_failing_spool_leaves_no_shown_retrievable() -> None:
    class Full(Spool):
        async def write(self, id: str, content: Any, *, turn_id: str | None = None) -> Any:
            raise SpoolError("no space left")

    full: Any = object()
    ctx = DispatchContext(spool=Full(full))

    with pytest.raises(SpoolError):
        await ctx.store_retrievable(found())
    assert ctx.retrievables == ()


def _fails() -> Any:
    raise RuntimeError("no class today")


@pytest.mark.parametrize("bad", [dict, "Artifact", lambda: 3, _fails], ids=["dict", "text", "number", "raises"])
async def test_artifact_constructor_must_be_an_artifact_class(bad: Any) -> None:
    with pytest.raises(InvalidRetrievableError) as caught:
        found(artifact_constructor=bad)
    assert caught.value.fields == ("artifact_constructor",)


async def test_only_a_retrievable_can_be_stored_as_one() -> None:
    wrong: Any = call("c1")

    with pytest.raises(InvalidRetrievableError):
        await DispatchContext().store_retrievable(wrong)
