"""What each client has of its own."""

import anyio
import pytest

from spindle import (
    Artifact,
    Call,
    CallOutcome,
    Err,
    Executor,
    JsonArtifact,
    Ok,
    Tool,
    ToolContext,
    ToolRegistry,
    tool,
)
from spindle.artifacts import query
from spindle.mcp.server.sessions import IDLE_SECONDS, MAX_SESSIONS, FairSlots, McpSession, McpSessions

pytestmark = pytest.mark.anyio


@tool
def add(a: int) -> int:
    """Add."""
    return a


def outcome(id: str, *, artifact: Artifact | None = None, is_reader: bool = False) -> CallOutcome:
    result = Ok("shown", artifact=artifact or Artifact.from_text("a\nb\nc"))
    return CallOutcome(id, "lines", "0" * 64, result, from_artifact_tool=is_reader)


def a_session(*, lists: bool = True) -> McpSession:
    return McpSession("who", None, lists)


def _named(view: ToolRegistry) -> set[str]:
    return {each["name"] for each in view.to_definitions()}


async def test_the_view_is_made_anew_only_when_something_changed() -> None:
    session, base = a_session(), ToolRegistry([add])

    first = session.get_registry(base)
    assert session.get_registry(base) is first
    base.hide("add")
    assert session.get_registry(base) is not first
    second = session.get_registry(base)
    assert session.keep_artifact(outcome("c1"))
    assert session.get_registry(base) is not second


async def test_view_changes_only_with_the_first_artifact_of_a_class() -> None:
    session, base = a_session(), ToolRegistry([add])
    assert session.keep_artifact(outcome("c1"))
    view = session.get_registry(base)

    assert not session.keep_artifact(outcome("c2"))
    assert session.get_registry(base) is view
    assert session.keep_artifact(outcome("c3", artifact=JsonArtifact.from_text("[1]")))
    assert {"artifact_json_get"} == _named(session.get_registry(base)) & {"artifact_json_get", "artifact_md_text"}


async def test_view_lists_the_readers_of_a_custom_artifact_class() -> None:
    class Log(Artifact):
        @query("log_first", "Return the first line.")
        async def first(self) -> str | None:
            return await self.reader.line(0)

    session = a_session()
    assert session.keep_artifact(outcome("c1", artifact=Log.from_text("first\nsecond")))
    view = session.get_registry(ToolRegistry([add]))
    with session.activate():
        [read] = await Executor(view).execute_parallel([Call("r", "log_first", {"call_id": "c1"})], ToolContext())

    assert "log_first" in _named(view)
    assert read.result == Ok("first")


@pytest.mark.parametrize("lists", [True, False])
async def test_unknown_id_is_refused_and_the_ids_are_named_only_to_a_client_of_its_own_session(*, lists: bool) -> None:
    session = a_session(lists=lists)
    session.keep_artifact(outcome("c_secret"))
    view = session.get_registry(ToolRegistry([add]))
    with session.activate():
        [read] = await Executor(view).execute_parallel(
            [Call("r", "artifact_head", {"call_id": "c_guess"})], ToolContext()
        )

    assert isinstance(read.result, Err)
    assert (read.result.code, read.result.field) == ("input_invalid", "call_id")
    assert ("c_secret" in read.result.error) is lists


async def test_only_artifacts_are_kept_and_readers_are_not_read_again() -> None:
    session = a_session()

    assert not session.keep_artifact(CallOutcome("c1", "add", "0" * 64, Ok("1")))
    assert not session.keep_artifact(outcome("c2", is_reader=True))
    assert not session.tool_calls


async def test_a_local_tool_keeps_its_name() -> None:
    mine = Tool(name="artifact_head", description="mine", input_schema={"type": "object"}, handler=lambda *_: "mine")
    session = a_session()
    session.keep_artifact(outcome("c1"))

    assert session.get_registry(ToolRegistry([mine])).get("artifact_head") is mine


async def test_readers_beyond_the_first_few_can_be_called_unlisted() -> None:
    session = a_session(lists=False)
    session.keep_artifact(outcome("c1"))
    view = session.get_registry(ToolRegistry([add]))
    call = Call("r", "artifact_line_count", {"call_id": "c1"})

    with session.activate():
        [count] = await Executor(view).execute_parallel([call], ToolContext())

    assert "artifact_line_count" not in {each["name"] for each in view.to_definitions()}
    assert isinstance(count.result, Ok)
    assert count.result.value.startswith("3")


async def test_a_session_that_stays_away_is_forgotten() -> None:
    now = 0.0
    sessions = McpSessions(lambda: now)
    first = sessions.get("a", filter=None, lists_artifacts=True)
    now = IDLE_SECONDS - 1.0
    sessions.get("b", filter=None, lists_artifacts=True)

    assert sessions.get("a", filter=None, lists_artifacts=True) is first
    now += IDLE_SECONDS + 1
    assert sessions.get("a", filter=None, lists_artifacts=True) is not first
    assert len(sessions.all()) == 1


async def test_there_are_never_too_many_sessions() -> None:
    sessions = McpSessions(lambda: 0.0)
    for n in range(MAX_SESSIONS + 10):
        sessions.get(str(n), filter=None, lists_artifacts=True)

    assert len(sessions.all()) == MAX_SESSIONS


async def test_clients_share_a_view_and_its_readers_find_only_what_the_caller_has() -> None:
    sessions, base = McpSessions(), ToolRegistry([add])
    first = sessions.get("first", filter=None, lists_artifacts=False)
    second = sessions.get("second", filter=None, lists_artifacts=False)
    first.keep_artifact(outcome("c1"))
    view = second.get_registry(base)
    read = Call("r", "artifact_head", {"call_id": "c1"})

    with first.activate():
        [own] = await Executor(view).execute_parallel([read], ToolContext())
    with second.activate():
        [stolen] = await Executor(view).execute_parallel([read], ToolContext())
    [nobodys] = await Executor(view).execute_parallel([read], ToolContext())

    assert view is first.get_registry(base)
    assert (own.ok, stolen.ok, nobodys.ok) == (True, False, False)


async def test_a_client_that_left_is_forgotten() -> None:
    sessions = McpSessions()
    first = sessions.get("a", filter=None, lists_artifacts=True)
    sessions.forget("a")
    sessions.forget("never seen")

    assert sessions.all() == []
    assert sessions.get("a", filter=None, lists_artifacts=True) is not first


async def test_of_a_large_result_only_its_artifact_is_kept() -> None:
    session = a_session()
    shown = "x" * 80_000
    result = CallOutcome("c1", "lines", "0" * 64, Ok(shown, artifact=Artifact.from_text("a\nb\nc")))

    assert session.keep_artifact(result)
    assert shown not in [getattr(kept, name) for kept in session.tool_calls for name in kept.__dataclass_fields__]
    assert [kept.id for kept in session.tool_calls] == ["c1"]


async def test_slots_of_ended_calls_are_free_again() -> None:
    """More calls one after the other than there are slots: a slot that is not given back would block the last ones."""
    registry = ToolRegistry([add])
    executor = Executor(registry)
    slots = FairSlots(2, max_per_key=1)
    with anyio.fail_after(30):
        for number in range(10):
            view = executor.with_registry(registry, slots=slots.for_key(f"client {number % 3}"))
            [ended] = await view.execute_parallel([Call(f"c{number}", "add", {"a": 1})], ToolContext("user"))
            assert ended.ok
