"""Handles reach a handler as declared and granted, and no further."""

from pathlib import Path
from typing import Any

import pytest

from spindle import Backends, Call, Capabilities, Err, Events, Executor, Media, Ok, ToolContext, ToolRegistry, tool
from spindle.capabilities import FileReach

pytestmark = pytest.mark.anyio

KEY = "sk-live-0123456789"
PICTURE = Media.user_attachment(b"x", kind="image", mime_type="image/png", filename="a.png")
REPORT = Media.user_attachment(b"x", kind="document", mime_type="application/pdf", filename="a.pdf")


@tool(capabilities=Capabilities(files=FileReach(read=["data"], write=["out"])))
async def copy(name: str, ctx: ToolContext) -> str:
    """Copy a file."""
    await ctx.files.write_text(f"out/{name}", await ctx.files.read_text(f"data/{name}"))
    return "copied"


@tool(capabilities=Capabilities(secrets=["SHOP_KEY"], storage="session"), expose_errors=True)
async def leak(how: str, ctx: ToolContext) -> Any:
    """Leak a secret."""
    secret = await ctx.secrets.get("SHOP_KEY")
    ctx.progress(f"using {secret.reveal()}")
    if how == "raise":
        raise ValueError(f"bad key {secret.reveal()}")
    return {"key": secret.reveal(), "shown": f"{secret}"}


@tool(capabilities=Capabilities(attachments=["image"]))
async def look(ctx: ToolContext) -> list[str]:
    """Look at pictures."""
    return [each.filename for each in await ctx.attachments.list()]


@tool(capabilities=Capabilities(storage="tool"))
async def touch(ctx: ToolContext) -> str:
    """Touch a handle that was not declared."""
    return str(ctx.files)


def executor(root: Path) -> Executor:
    backends = Backends.local(root, secrets={"SHOP_KEY": KEY})
    return Executor(ToolRegistry([copy, leak, look, touch]), backends=backends)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("hello")
    (tmp_path / "secret.txt").write_text("nobody may read this")
    return tmp_path


async def test_declared_files_are_reached_and_others_are_not(root: Path) -> None:
    calls = [Call("1", "copy", {"name": "a.txt"}), Call("2", "copy", {"name": "../secret.txt"})]
    copied, refused = await executor(root).execute_parallel(calls, ToolContext())

    assert copied.result == Ok("copied")
    assert (root / "out" / "a.txt").read_text() == "hello"
    assert isinstance(refused.result, Err)
    assert not (root / "secret.txt.out").exists()


async def test_a_secret_is_masked_wherever_it_turns_up(root: Path) -> None:
    events, reported = Events(), list[Any]()
    events.on("tool_progress", reported.append)
    calls = [Call("1", "leak", {"how": "return"}), Call("2", "leak", {"how": "raise"})]
    given, raised = await executor(root).execute_parallel(calls, ToolContext(events=events))

    assert isinstance(given.result, Ok)
    assert isinstance(raised.result, Err)
    for text in (
        given.result.value,
        str(given.result.structured),
        raised.result.error,
        *(each.message for each in reported),
    ):
        assert KEY not in text
    assert len(reported) == 2


async def test_only_attachments_of_the_declared_kinds_are_seen(root: Path) -> None:
    (outcome,) = await executor(root).execute_parallel(
        [Call("1", "look")], ToolContext(), attachments=[PICTURE, REPORT]
    )

    assert isinstance(outcome.result, Ok)
    assert outcome.result.structured == ["a.png"]


async def test_touching_an_undeclared_handle_fails_the_call(root: Path) -> None:
    (outcome,) = await executor(root).execute_parallel([Call("1", "touch")], ToolContext())

    assert isinstance(outcome.result, Err)
    assert outcome.result.field == "files"


async def test_a_need_that_nothing_serves_refuses_the_call() -> None:
    (outcome,) = await Executor(ToolRegistry([copy])).execute_parallel(
        [Call("1", "copy", {"name": "a"})], ToolContext()
    )

    assert isinstance(outcome.result, Err)
    assert outcome.result.code == "not_available"


async def test_handles_are_closed_when_the_call_has_ended() -> None:
    closed: list[str] = []

    class Handle:
        async def aclose(self) -> None:
            closed.append("closed")

    class Backend:
        def open(self, need: Any, scope: Any) -> Any:
            return Handle()

    @tool(capabilities=Capabilities(network=["a.example"]))
    async def use(ctx: ToolContext) -> str:
        """Use it."""
        assert isinstance(ctx.network, Handle)
        raise ValueError

    await Executor(ToolRegistry([use]), backends=Backends(network=Backend())).execute_parallel(
        [Call("1", "use")], ToolContext()
    )

    assert closed == ["closed"]
