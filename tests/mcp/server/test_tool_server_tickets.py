"""Calls of MCP clients that wait for approval in the journal: answered elsewhere, or by the client's user."""

import json
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from spindle import Executor, Journal, Tool, ToolContext, ToolRegistry, tool
from spindle.journal import StateQuery
from spindle.mcp import ToolServer
from spindle.mcp.server.sessions import Caller
from tests.mcp.asking_clients import LEGACY, MODERN, Asked, text_of
from tests.mcp.serving import COMMAND, chosen_config, served_over_http

pytestmark = pytest.mark.anyio

both_protocols = pytest.mark.parametrize("mode", [LEGACY, MODERN])
KEY = "a key"


def paying() -> tuple[Tool, list[int]]:
    runs: list[int] = []

    @tool(requires_approval=True, secret_fields=["password"])
    async def pay(amount: int, password: str = "", *, ctx: ToolContext) -> str:
        """Pay an amount."""
        runs.append(amount)
        return f"paid {amount} in {ctx.working_dir}"

    return pay, runs


class Gateway:
    """A server whose clients are connected one after the other, and an executor of another process."""

    def __init__(self, pay: Tool) -> None:
        self.journal, registry = Journal.memory(), ToolRegistry([pay])
        self._callers = [Caller(key="alice")]
        self.executor = Executor(registry, journal=self.journal, state_key=KEY)
        self.other = Executor(ToolRegistry([pay]), journal=self.journal, state_key=KEY)
        self._server = ToolServer(
            self.executor, registry, identify=lambda _ctx: self._callers[0], is_fenced=False, working_dir="/srv"
        )

    @asynccontextmanager
    async def connect(self, mode: str, *, key: str = "alice", answer: bool | None = None) -> AsyncGenerator[Client]:
        """Connect a client, whose user can be asked if there is an answer."""
        self._callers[0] = Caller(key=key)
        person = Asked(elicitation=types.ElicitResult(action="accept", content={"approve": answer}))
        callbacks = {} if answer is None else person.callbacks("elicitation")
        with anyio.fail_after(30):
            async with Client(self._server.sdk, mode=mode, **callbacks) as client:
                yield client

    async def read_approvals(self) -> list[dict[str, Any]]:
        """What the journal has of approvals, newest first."""
        assert self.journal.states is not None
        found = await self.journal.states.select(StateQuery("approval"))
        return [{"id": each.id, "status": each.status, **json.loads(each.data)} for each in found]

    async def answer(self, *, approved: bool = True) -> None:
        """Answer the only call that waits, in another process."""
        [waiting] = [each for each in await self.read_approvals() if each["status"] == "pending"]
        ctx = ToolContext(waiting["session_id"], turn_id=waiting["turn_id"], working_dir="/srv")
        call = {"id": waiting["tool_call_id"], "name": "pay", "args": waiting["args"]}
        [outcome] = await self.other.execute_parallel([call], ctx)
        assert outcome.result.ok is False
        assert outcome.result.ticket is not None
        await self.other.resume(outcome.result.ticket, approved)


@both_protocols
async def test_a_client_that_cannot_be_asked_gets_the_result_by_calling_again(mode: str) -> None:
    pay, runs = paying()
    gateway = Gateway(pay)
    async with gateway.connect(mode) as client:
        waits = [text_of(await client.call_tool("pay", {"amount": 5})) for _ in range(2)]
        approvals = await gateway.read_approvals()
        await gateway.answer()
        result = text_of(await client.call_tool("pay", {"amount": 5}))
        another = await client.call_tool("pay", {"amount": 5})

    assert len(approvals) == 1
    assert all(approvals[0]["id"] in said for said in waits)
    assert result == "paid 5 in /srv"
    assert runs == [5]
    assert another.is_error
    assert [each["status"] for each in await gateway.read_approvals()] == ["pending", "finished"]


@both_protocols
async def test_a_client_that_calls_again_gets_the_denial(mode: str) -> None:
    pay, runs = paying()
    gateway = Gateway(pay)
    async with gateway.connect(mode) as client:
        await client.call_tool("pay", {"amount": 5})
        await gateway.answer(approved=False)
        result = await client.call_tool("pay", {"amount": 5})

    assert (result.meta or {})["spindle/code"] == "denied"
    assert runs == []


@both_protocols
async def test_another_client_or_call_does_not_get_the_result(mode: str) -> None:
    pay, runs = paying()
    gateway = Gateway(pay)
    async with gateway.connect(mode) as client:
        await client.call_tool("pay", {"amount": 5})
        await gateway.answer()
        other_call = await client.call_tool("pay", {"amount": 6})
    async with gateway.connect(mode, key="eve") as client:
        other_client = await client.call_tool("pay", {"amount": 5})

    assert [(each.meta or {})["spindle/code"] for each in (other_call, other_client)] == ["needs_approval"] * 2
    assert runs == [5]


@both_protocols
@pytest.mark.parametrize("approved", [True, False])
async def test_the_user_of_a_client_answers_a_ticket(mode: str, approved: bool) -> None:
    pay, runs = paying()
    gateway = Gateway(pay)
    async with gateway.connect(mode) as client:
        await client.call_tool("pay", {"amount": 5, "password": "hunter2-hunter2"})
    async with gateway.connect(mode, answer=approved) as client:
        result = await client.call_tool("pay", {"amount": 5, "password": "hunter2-hunter2"})

    [approval] = await gateway.read_approvals()
    assert result.is_error is not approved
    assert runs == ([5] if approved else [])
    assert (approval["status"], approval["answer"]["approved"]) == ("executing" if approved else "denied", approved)
    assert approval["answer"]["by"] == "the user of the client"
    assert approval["shown"] == 'Run pay with {"amount": 5, "password": "***"}?'
    assert "hunter2" not in json.dumps(approval)


PAYING = """
from pathlib import Path
from spindle import tool

@tool(requires_approval=True, secret_fields=["password"])
async def pay(amount: int, note: str = "", password: str = "") -> str:
    "Pay an amount."
    with Path("paid.txt").open("a") as file:
        file.write(f"{amount};")
    return f"paid {amount}"

tools = [pay]
"""
CONFIG = '[tools]\nmodules = ["paying:tools"]\npython_path = ["."]\n'


def run(folder: Path, *arguments: str) -> str:
    """Run `spindle` in a process of its own, with the configuration and the state folder of the server."""
    command = [*COMMAND, *arguments, *chosen_config(folder), "--state", str(folder / "state")]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.slow
@pytest.mark.one_loop
async def test_a_ticket_of_the_server_is_answered_by_a_command_with_the_same_state_folder(tmp_path: Path) -> None:
    (tmp_path / "paying.py").write_text(PAYING)
    call: dict[str, Any] = {"amount": 5, "note": 'a\u202eb\x1b[2J\n"}?', "password": "hunter2-hunter2"}
    with served_over_http(tmp_path, config=CONFIG) as address:
        async with Client(address) as client:
            await client.call_tool("pay", call)
            [waiting] = json.loads(run(tmp_path, "approvals", "list", "--json"))["approvals"]
            shown = run(tmp_path, "approvals", "show", waiting["id"])
            approved = run(tmp_path, "approvals", "approve", waiting["id"], "--by", "ann")
            result = text_of(await client.call_tool("pay", call))
        [answered] = json.loads(run(tmp_path, "approvals", "list", "--all", "--json"))["approvals"]

    assert r"a\u202eb\u001b[2J\n\"}?" in shown
    assert "\x1b" not in shown
    assert "paid 5" in approved
    assert "paid 5" in result
    assert (tmp_path / "paid.txt").read_text() == "5;"
    assert (answered["status"], answered["answered_by"]) == ("finished", "ann")
    kept = [path for path in (tmp_path / "state").rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert kept == []
