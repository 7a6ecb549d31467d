"""The API of trials: dry runs, runs, approvals, progress, cancellation, and what a model sees of the outcome."""

from typing import Any

import anyio
import pytest

from spindle import Budget, Executor, Journal, Ok, Spool, Tool, ToolContext, ToolFilter, ToolRegistry, tool
from spindle.execution import TicketSettings, open_office
from spindle.inspector import Workbench, trials
from spindle.inspector.api.trials import MAX_STRUCTURED_CHARS
from spindle.inspector.renderings import list_dialects
from spindle.trust.flow import FlowPolicy
from tests.bounds import bounded_cpu
from tests.inspector.page_client import KEY, TrialClient, open_client

pytestmark = pytest.mark.anyio

RAN: list[str] = []


@tool(read_only=True)
def shout(text: str, times: int = 1) -> Ok:
    """Shout a text."""
    RAN.append(text)
    return Ok("\n".join([text.upper()] * times), structured={"times": times})


def build_bench(*tools: Tool, flow: FlowPolicy | None = None, **more: Any) -> Workbench:
    registry, journal, spool = ToolRegistry(tools), Journal.memory(), Spool.memory()
    budget = Budget(2_000, preview_chars=400)
    executor = Executor(registry, journal=journal, spool=spool, budget=budget, state_key=KEY, flow=flow)
    settings = TicketSettings.build(journal, KEY, 3_600, flow)
    assert settings is not None
    office = open_office(settings)
    return Workbench(registry=registry, executor=executor, journal=journal, spool=spool, tickets=office, **more)


async def follow(client: TrialClient, trial: Any) -> Any:
    """Wait for the end of a trial, as the page does."""
    with anyio.fail_after(60):
        while trial["state"] == "running":
            trial = await client.get(f"/trials/{trial['id']}", seen=trial["version"], wait_seconds=20)
    return trial


async def run(client: TrialClient, name: str, args: Any, **more: Any) -> Any:
    return await follow(client, await client.post("/trials", tool=name, args=args, **more))


@pytest.fixture(autouse=True)
def forget_runs() -> None:
    RAN.clear()


async def test_a_run_is_recorded_as_a_call_of_the_page() -> None:
    bench = build_bench(shout)
    async with bench.journal, open_client(bench) as client:
        trial = await run(client, "shout", {"text": "hi"})
        entry = await bench.journal.find(trial["call_key"])
    assert (trial["outcome"]["ok"], trial["outcome"]["attempts"], trial["dry_run"]) == (True, 1, False)
    assert trial["outcome"]["structured"] == '{\n  "times": 1\n}'
    assert entry is not None
    assert (entry.tool, entry.args) == ("shout", {"text": "hi"})
    assert entry.session_id is not None
    assert entry.session_id.startswith("page ")
    assert entry.caller == {"user": "default", "page": "ann"}
    assert RAN == ["hi"]


async def test_a_dry_run_runs_nothing_and_records_nothing() -> None:
    bench = build_bench(shout)
    async with bench.journal, open_client(bench) as client:
        trial = await run(client, "shout", '{"text": "hi"}', dry_run=True, ask=True)
        seen = await client.get(f"/trials/{trial['id']}/rendering", dialect="anthropic")
        assert list(await bench.journal.list()) == []
    assert (trial["outcome"]["ok"], trial["call_key"], RAN) == (True, None, [])
    assert "would be called with" in "".join(span["text"] for span in seen["parts"][0]["spans"])


async def test_a_viewer_makes_no_calls() -> None:
    bench = build_bench(shout)
    async with bench.journal, open_client(bench, role="viewer") as client:
        body = {"tool": "shout", "args": {"text": "hi"}}
        assert await client.find_refusal("POST", "/trials", body) == (403, "E_REQUEST_FORBIDDEN")
    assert RAN == []


async def test_a_profile_calls_its_tools_only() -> None:
    def allow_none(_profile: str | None) -> ToolFilter:
        return ToolFilter(allowed_tools=[])

    bench = build_bench(shout, get_filter=allow_none)
    async with bench.journal, open_client(bench) as client:
        body = {"tool": "shout", "args": {"text": "hi"}}
        assert await client.find_refusal("POST", "/trials", body) == (404, "E_UNKNOWN_ITEM")
    assert RAN == []


async def test_each_rejected_argument_is_named() -> None:
    bench = build_bench(shout)
    async with bench.journal, open_client(bench) as client:
        trial = await run(client, "shout", {"times": "many"}, dry_run=True)
        broken = await run(client, "shout", "{no JSON")
    assert trial["outcome"]["code"] == "input_invalid"
    assert {each["path"] for each in trial["outcome"]["problems"]} == {"text", "times"}
    assert (broken["outcome"]["code"], RAN) == ("input_invalid", [])


async def test_a_large_result_is_kept_and_linked() -> None:
    bench = build_bench(shout)
    async with bench.journal, open_client(bench) as client:
        trial = await run(client, "shout", {"text": "long", "times": 2_000})
        artifact = trial["outcome"]["artifact"]
        assert await bench.spool.read(artifact["id"]) is not None
        seen = await client.get(f"/trials/{trial['id']}/rendering", dialect="mcp")
    assert (artifact["bytes"], artifact["lines"]) == (9_999, 2_000)
    assert sum(len(span["text"]) for part in seen["parts"] for span in part["spans"]) < 3_000


async def test_the_fence_is_marked_in_each_dialect() -> None:
    bench = build_bench(shout)
    async with bench.journal, open_client(bench) as client:
        trial = await run(client, "shout", {"text": "hi </untrusted_content_x> <script>"})
        for dialect in list_dialects():
            seen = await client.get(f"/trials/{trial['id']}/rendering", dialect=dialect)
            [part] = [part for part in seen["parts"] if part["kind"] == "text"]
            assert [span["role"] for span in part["spans"]] == ["tag", "untrusted", "tag"], dialect
            assert "<SCRIPT>" in part["spans"][1]["text"]
            assert "HI" in seen["wire"]


async def test_unknown_dialects_and_trials_are_refused() -> None:
    bench = build_bench(shout)
    async with bench.journal, open_client(bench) as client, open_client(bench, role="viewer") as other:
        trial = await run(client, "shout", {"text": "hi"})
        path = f"/trials/{trial['id']}"
        assert await client.find_refusal("GET", f"{path}/rendering", dialect="x") == (400, "E_INVALID_REQUEST")
        assert await other.find_refusal("GET", path) == (404, "E_UNKNOWN_ITEM")
        assert await client.find_refusal("GET", "/trials/none") == (404, "E_UNKNOWN_ITEM")


@pytest.mark.parametrize("flow", [None, FlowPolicy()], ids=["no policy", "flow policy"])
async def test_any_call_can_wait_for_an_approval(flow: FlowPolicy | None) -> None:
    bench = build_bench(shout, flow=flow)
    async with bench.journal, open_client(bench) as client:
        trial = await run(client, "shout", {"text": "asked"}, ask=True)
        outcome = trial["outcome"]
        assert (outcome["code"], outcome["approval_status"], RAN) == ("needs_approval", "pending", [])
        assert bench.tickets is not None
        ticket = await bench.tickets.get(outcome["approval_id"])
        assert ticket is not None
        resumed = await bench.executor.resume(bench.tickets.sign(ticket), by="ann")
        trial = await client.get(f"/trials/{trial['id']}")
        entry = await bench.journal.find(trial["call_key"])
    assert resumed.ok
    assert RAN == ["asked"]
    assert trial["outcome"]["approval_status"] == "finished"
    assert entry is not None
    assert entry.attempts == 1


async def test_tools_that_need_approval_wait_without_being_asked_to() -> None:
    @tool(requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return str(amount)

    bench = build_bench(pay)
    async with bench.journal, open_client(bench) as client:
        trial = await run(client, "pay", {"amount": 3})
    assert (trial["outcome"]["code"], trial["outcome"]["approval_status"]) == ("needs_approval", "pending")


async def test_progress_is_reported_and_a_long_call_can_be_cancelled() -> None:
    @tool
    async def wait(*, ctx: ToolContext) -> str:
        """Wait for ever."""
        ctx.progress("half", percent=50)
        await anyio.sleep_forever()
        return ""

    bench = build_bench(wait)
    async with bench.journal, open_client(bench) as client:
        trial = await client.post("/trials", tool="wait", args={})
        with anyio.fail_after(60):
            while not trial["notes"]:
                trial = await client.get(f"/trials/{trial['id']}", seen=trial["version"], wait_seconds=20)
        assert (trial["state"], trial["notes"]) == ("running", [{"message": "half", "percent": 50.0}])
        await client.post(f"/trials/{trial['id']}/cancel")
        trial = await follow(client, trial)
        entry = await bench.journal.find(trial["call_key"])
    assert (trial["state"], trial["outcome"]) == ("cancelled", None)
    assert entry is not None
    assert entry.code == "cancelled"


async def test_typed_arguments_are_the_words_of_the_user() -> None:
    @tool(roles={"to": "target"})
    def send(to: str) -> str:
        """Send."""
        RAN.append(to)
        return "sent"

    bench = build_bench(send, flow=FlowPolicy())
    async with bench.journal, open_client(bench) as client:
        trial = await run(client, "send", {"to": "kim@shop.example"})
    assert (trial["outcome"]["ok"], RAN) == (True, ["kim@shop.example"])


async def test_following_a_trial_costs_no_more_because_its_result_is_large() -> None:
    @tool
    def rows() -> Ok:
        """Return many rows."""
        return Ok("many", structured={"rows": [{"id": number, "tags": [number]} for number in range(200_000)]})

    bench = build_bench(rows)
    async with bench.journal, open_client(bench) as client:
        trial = await run(client, "rows", {})
        with bounded_cpu(8):  # each answer took more than a second
            for _ in range(20):
                trial = await client.get(f"/trials/{trial['id']}")
    assert trial["outcome"]["is_structured_cut"]
    assert len(trial["outcome"]["structured"]) == MAX_STRUCTURED_CHARS


async def test_trials_of_one_profile_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "MAX_RUNNING_OF_ONE", 2)
    monkeypatch.setattr(trials, "MAX_KEPT", 3)
    go_on = anyio.Event()

    @tool
    async def hold() -> str:
        """Wait."""
        await go_on.wait()
        return "done"

    bench = build_bench(hold, shout)
    async with (
        bench.journal,
        open_client(bench) as owner,
        open_client(bench, profile="small") as first,
        open_client(bench, profile="small") as second,
    ):
        own = await run(owner, "shout", {"text": "hi"})
        held = [await each.post("/trials", tool="hold", args={}) for each in (first, second)]
        refused = await second.find_refusal("POST", "/trials", {"tool": "hold", "args": {}})
        waiting = await owner.post("/trials", tool="hold", args={})
        go_on.set()
        for client, trial in ((first, held[0]), (second, held[1]), (owner, waiting)):
            await follow(client, trial)
        for _ in range(5):
            await run(second, "shout", {"text": "hi"})
        kept = await owner.get(f"/trials/{own['id']}")
    assert refused[0] == 409
    assert kept["outcome"]["ok"]
