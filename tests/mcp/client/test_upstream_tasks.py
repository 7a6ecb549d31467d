"""Calls that an upstream server makes tasks of, in the forms of both revisions, over streams of this process."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from mcp.shared.memory import create_client_server_memory_streams

from spindle import Journal
from spindle.mcp.client.link import ErrorMarker
from spindle.mcp.client.session import UpstreamSession
from spindle.mcp.client.task_ledger import CallTask, TaskLedger
from spindle.mcp.client.upstream_questions import Answered, Question
from spindle.mcp.client.upstream_tasks import (
    CLAIMS,
    EXTENSION,
    MAX_POLL_SECONDS,
    MIN_POLL_SECONDS,
    TaskSession,
    TaskView,
)
from tests.mcp.servers.tasking import Tasking

pytestmark = pytest.mark.anyio
OLDER, NEWER = "older", "newer"
both_revisions = pytest.mark.parametrize("revision", [OLDER, NEWER])


class MemoryLink:
    """What a session needs of its transport."""

    def __init__(self) -> None:
        self.error_marker, self.broken, self.is_older = ErrorMarker(), anyio.Event(), False


class Upstream:
    """A session with the server, and calls over it."""

    def __init__(self, session: UpstreamSession, server: Tasking, ledger: TaskLedger) -> None:
        self.session, self.server, self.ledger = session, server, ledger
        self.progress: list[str | None] = []
        self.asked: list[str] = []

    async def call(self, name: str, what: str = "", *, call_id: str = "c1") -> types.CallToolResult:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            del progress, total
            self.progress.append(message)

        async def ask(questions: Sequence[Question]) -> list[Answered]:
            self.asked += [str(each.params.message) for each in questions if each.kind == "elicitation"]
            return [Answered(action="accept", content={"name": "Ada"}) for _ in questions]

        task = CallTask(ledger=self.ledger, call_id=call_id, server="s", tool=name)
        return await self.session.call(name, {"what": what}, seconds=10, on_progress=report, ask=ask, task=task)

    def read_log(self) -> list[str]:
        log = self.server.folder / "log"
        return log.read_text().splitlines() if log.exists() else []

    async def until_logged(self, line: str, count: int = 1) -> None:
        while self.read_log().count(line) < count:  # noqa: ASYNC110  the server writes a file
            await anyio.sleep(0.01)


@asynccontextmanager
async def connected(
    folder: Path, revision: str, *, ledger: TaskLedger | None = None, server: Tasking | None = None
) -> AsyncGenerator[Upstream]:
    made = server or Tasking(folder)
    upstreams: list[Upstream] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        del context
        upstreams[0].asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    with anyio.fail_after(10):
        async with create_client_server_memory_streams() as (mine, theirs), anyio.create_task_group() as tasks:
            tasks.start_soon(made.sdk.run, *theirs, made.sdk.create_initialization_options())
            async with TaskSession(
                *mine, elicitation_callback=elicit, extensions={EXTENSION: {}}, result_claims=CLAIMS
            ) as session:
                link: Any = MemoryLink()
                upstream = UpstreamSession(session, link)
                await upstream.negotiate(probe=revision == NEWER)
                await upstream.list_tools()
                upstreams.append(Upstream(upstream, made, ledger or TaskLedger()))
                yield upstreams[0]
            tasks.cancel_scope.cancel()


def text_of(result: types.CallToolResult) -> str:
    first = result.content[0]
    assert isinstance(first, types.TextContent)
    return first.text


@both_revisions
async def test_a_task_is_polled_and_its_messages_are_progress(revision: str, tmp_path: Path) -> None:
    results: list[types.CallToolResult] = []
    async with connected(tmp_path, revision) as upstream, anyio.create_task_group() as tasks:

        async def call() -> None:
            results.append(await upstream.call("build", "boat"))

        tasks.start_soon(call)
        await upstream.until_logged("get task-1", 2)
        (tmp_path / "go").touch()
    assert [text_of(each) for each in results] == ["built boat"]
    assert upstream.progress == ["build boat"]
    assert upstream.read_log().count("call build") == 1
    assert not await upstream.ledger.has("c1")


@both_revisions
async def test_the_questions_of_a_task_are_answered(revision: str, tmp_path: Path) -> None:
    async with connected(tmp_path, revision) as upstream:
        result = await upstream.call("ask_name")
    assert text_of(result) == "hello Ada"
    assert upstream.asked == ["What is your name?"]


@both_revisions
async def test_a_failed_task_is_the_error_of_the_call(revision: str, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    async with connected(tmp_path, revision) as upstream:
        with pytest.raises(MCPError) as failed:
            await upstream.call("fail")
    assert (failed.value.code, failed.value.message) == (types.INTERNAL_ERROR, "the build broke")


@both_revisions
@pytest.mark.parametrize("is_held", [False, True])
async def test_a_cancelled_call_cancels_its_task_unless_it_will_be_asked_again(
    revision: str, is_held: bool, tmp_path: Path
) -> None:
    ledger = TaskLedger(Journal.memory().states)
    if is_held:
        ledger.hold("c1")
    async with connected(tmp_path, revision, ledger=ledger) as upstream, anyio.create_task_group() as tasks:
        tasks.start_soon(upstream.call, "build")
        await upstream.until_logged("get task-1")
        tasks.cancel_scope.cancel()
    assert ("cancel task-1" in upstream.read_log()) is not is_held
    assert await ledger.has("c1") is is_held


@both_revisions
async def test_a_call_that_is_asked_again_goes_on_with_its_task(revision: str, tmp_path: Path) -> None:
    states, server = Journal.memory().states, Tasking(tmp_path)
    first = TaskLedger(states)
    first.hold("c1")
    async with (
        connected(tmp_path, revision, ledger=first, server=server) as upstream,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(upstream.call, "build", "boat")
        await upstream.until_logged("get task-1")
        tasks.cancel_scope.cancel()
    (tmp_path / "go").touch()
    async with connected(tmp_path, revision, ledger=TaskLedger(states), server=server) as upstream:
        result = await upstream.call("build", "boat")
        another = await upstream.call("build", "car", call_id="c2")
    assert (text_of(result), text_of(another)) == ("built boat", "built car")
    assert upstream.read_log().count("call build") == 2


@both_revisions
async def test_a_task_that_its_server_does_not_know_any_more_is_an_error_and_is_not_started_again(
    revision: str, tmp_path: Path
) -> None:
    ledger = TaskLedger()
    await ledger.keep("c1", server="s", tool="build", task="lost")
    async with connected(tmp_path, revision, ledger=ledger) as upstream:
        with pytest.raises(MCPError) as failed:
            await upstream.call("build")
    assert failed.value.code == types.INVALID_PARAMS
    assert not any(line.startswith("call") for line in upstream.read_log())


@both_revisions
async def test_a_server_that_answers_with_another_task_is_not_believed(revision: str, tmp_path: Path) -> None:
    async with connected(tmp_path, revision) as upstream:
        upstream.ledger.hold("c1")
        await upstream.ledger.keep("c1", server="s", tool="odd", task="task-1")
        upstream.server.tasks["task-1"] = {"name": "odd", "what": "id", "createdAt": "", "cancelled": False}
        with pytest.raises(MCPError) as failed:
            await upstream.call("odd")
    assert failed.value.code == types.INVALID_PARAMS


@both_revisions
async def test_what_a_server_says_about_a_task_is_bounded(revision: str, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    async with connected(tmp_path, revision) as upstream:
        results = [text_of(await upstream.call("odd", what)) for what in ("long", "always")]
    assert results == ["built long", "built always"]
    assert max(len(each or "") for each in upstream.progress) <= 2_000


@pytest.mark.parametrize(
    ("hint", "seconds"),
    [(10**15, MAX_POLL_SECONDS), (-5, MIN_POLL_SECONDS), (0, MIN_POLL_SECONDS), (500, 0.5), ("soon", 1), (True, 1)],
)
def test_the_hint_how_often_to_ask_is_kept_within_bounds(hint: Any, seconds: float) -> None:
    view = TaskView.model_validate({"taskId": "t", "status": "working", "pollIntervalMs": hint}, by_name=False)
    assert view.pause_seconds == seconds


async def test_a_tool_that_does_not_need_a_task_is_called_plainly(tmp_path: Path) -> None:
    async with connected(tmp_path, OLDER) as upstream:
        result = await upstream.call("plain")
    assert text_of(result) == "plain"
    assert upstream.read_log() == ["plain plain"]
