"""The state of a suspended turn: its format, its signature, its secrets, and the law of the round trip."""

import copy
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle import Call, Gate, Journal, Ok, Stash, Tool, ToolContext, ToolRegistry, TurnReport, TurnRunner, tool
from spindle.errors import InvalidTurnStateError
from spindle.execution import ApprovalRequest, StateKey
from spindle.testing import ScriptedModel
from spindle.turns import Message, turn_state
from tests.fuzzing import examples
from tests.turns.suspended_scene import KEY, LOOK, PAY, Shop, waits

pytestmark = pytest.mark.anyio

SECRET = "4111-1111-secret"


async def suspend(**settings: Any) -> tuple[Shop, TurnReport]:
    card = Call("c1", "pay", {"amount": 5, "card": SECRET})
    shop = Shop(Journal.memory(), [card, LOOK], "done", **settings)
    return shop, await shop.run(stash={"token": SECRET}, caller={"user": "ann"})


async def test_a_state_names_its_format_and_what_it_contains() -> None:
    _, report = await suspend()
    state = report.state
    assert state is not None

    assert state["format"] == 1
    assert isinstance(state["spindle"], str)
    assert {"turn_id", "session_id", "messages", "records", "pending", "iteration", "usage", "settings"} <= state.keys()
    assert state["messages"] == [{"text": "go"}]
    assert json.loads(json.dumps(state)) == state


async def test_secret_arguments_and_the_stash_are_only_in_the_sealed_part(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    shop, report = await suspend()
    shop.journal = Journal.sqlite(file)
    report = await shop.run(stash={"token": SECRET})
    assert SECRET not in json.dumps(report.state)

    ended = await shop.resume(report.state, {waits(report)[0]: True})

    # What the turn's own callback and caller see is whole; what is kept is not.
    assert ended.tool_calls[0].args == {"amount": 5, "card": SECRET}
    assert ended.tool_calls[0].results == f"paid 5 with {SECRET}"
    await shop.journal.aclose()
    with closing(sqlite3.connect(file)) as database:
        assert SECRET not in "\n".join(database.iterdump())


async def test_the_secrets_of_finished_calls_are_sealed() -> None:
    @tool(secret_fields=["card"])
    async def check(card: str) -> str:
        """Check a card."""
        return f"{card} is valid"

    shop = Shop(
        Journal.memory(), Call("c0", "check", {"card": SECRET}), [PAY, Call("c9", "check", {"card": SECRET})], "done"
    )
    shop.tools.append(check)
    report = await shop.run()
    assert SECRET not in json.dumps(report.state)

    ended = await shop.resume(report.state, {waits(report)[0]: True})

    assert [record.results for record in ended.tool_calls] == [f"{SECRET} is valid", "paid 5", f"{SECRET} is valid"]
    assert ended.tool_calls[0].args == {"card": SECRET}


def change(value: Any) -> Any:
    """Return another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, list):
        return [*value, "x"]
    return {**cast("dict[str, Any]", value), "x": 1} if isinstance(value, dict) else "x"


async def test_every_change_of_a_state_is_found() -> None:
    shop, report = await suspend()
    state = report.state
    assert state is not None
    answers = {waits(report)[0]: True}

    for name in state:
        changed = copy.deepcopy(state) | {name: change(state[name])}
        with pytest.raises(InvalidTurnStateError) as caught:
            await shop.resume(changed, answers)
        expected = {"format": "format", "key": "foreign"}.get(name, "tampered")
        assert (name, caught.value.reason) == (name, expected)
        with pytest.raises(InvalidTurnStateError):
            await shop.resume({key: value for key, value in state.items() if key != name}, answers)

    assert shop.ran == ["look tea"]


async def test_the_numbers_of_another_json_library_are_the_same_numbers() -> None:
    shop = Shop(Journal.memory(), [PAY], "done")
    report = await shop.run(messages=[{"role": "user", "content": "x", "score": 2.0}])
    written = json.dumps(report.state)
    state = json.loads(written.replace('"score": 2.0', '"score": 2'))

    assert '"score": 2.0' in written
    assert (await shop.resume(state, {waits(report)[0]: True})).status == "ok"


@pytest.mark.parametrize("number", [0, -1, 2, 99])
async def test_a_state_of_another_format_is_refused_by_its_number(number: int) -> None:
    shop, report = await suspend()
    assert report.state is not None

    with pytest.raises(InvalidTurnStateError) as caught:
        await shop.resume(report.state | {"format": number})

    assert (caught.value.reason, caught.value.format) == ("format", number)
    assert str(number) in str(caught.value)


@pytest.mark.parametrize("state", [{}, {"format": True}, {"format": "1"}, {"format": None}, []])
async def test_what_is_not_a_state_is_refused(state: Any) -> None:
    with pytest.raises(InvalidTurnStateError) as caught:
        await Shop(Journal.memory(), "done").runner().resume(state)

    assert caught.value.reason == "invalid"


async def test_an_older_format_is_migrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a format 0, the prompt had another name."""
    shop = Shop(Journal.memory(), [Call("c1", "confirm", {"question": "sure"})], "done")
    report = await shop.run(system_prompt="be brief")
    assert report.state is not None
    old = {name: value for name, value in report.state.items() if name not in {"signature", "system_prompt"}}
    signed = turn_state.sign_state(old | {"format": 0, "prompt": "be brief"}, StateKey(KEY))

    def migrate(state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "format": 1, "system_prompt": state["prompt"]}

    monkeypatch.setattr(turn_state, "MIGRATIONS", {0: migrate})
    shop.journal = Journal.memory()

    ended = await shop.resume(signed, {"confirm sure": True})

    assert ended.status == "ok"


async def test_a_state_of_another_key_is_foreign_and_a_rotated_key_is_not() -> None:
    shop, report = await suspend()
    answers = {waits(report)[0]: True}
    shop.settings["state_key"] = "another"

    with pytest.raises(InvalidTurnStateError) as caught:
        await shop.resume(report.state, answers)
    assert caught.value.reason == "foreign"

    shop.settings["state_key"] = ["another", KEY]
    assert (await shop.resume(report.state, answers)).status == "ok"


async def test_raw_arguments_of_a_provider_are_kept_as_they_came() -> None:
    calls = [Call("c1", "pay", '{"amount": 5}'), Call("c2", "pay", b'{"amount":6}'), Call("c3", "pay", '{"amount":')]
    shop = Shop(Journal.memory(), [*calls, Call("c4", "nobody", {"x": SECRET})], "done")
    report = await shop.run()
    assert SECRET not in json.dumps(report.state)

    ended = await shop.resume(report.state, dict.fromkeys(waits(report), True))

    assert sorted(shop.ran) == ["pay 5", "pay 6"]
    assert [record.code for record in ended.tool_calls] == [None, None, "input_invalid", "not_available"]
    assert ended.tool_calls[2].raw_args == "***"  # the tool has secret fields


# The law: a turn that is suspended and resumed, as often as it takes, ends like one that was never suspended.

TEXT = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
CALL = st.sampled_from(["plain", "guarded", "gated", "both", "failing", "large", "nobody"])
BATCHES = st.lists(st.lists(CALL, min_size=1, max_size=4), min_size=1, max_size=3)


def build_tools() -> list[Tool]:
    async def plain(value: Any = None, *, ctx: ToolContext) -> Ok:
        """Return a value."""
        ctx.stash.set(["seen", str(ctx.tool_call_id)], value)
        return Ok(json.dumps(value), structured=value, cost_usd=0.25)

    async def gated(value: Any = None, *, ctx: ToolContext) -> str:
        """Ask for a value."""
        answer = await ctx.wait_for(Gate("value?", timeout_seconds=60, id=f"gate {ctx.tool_call_id}"))
        ctx.stash.set(["gates", str(ctx.tool_call_id)], answer)
        return json.dumps([value, answer])

    async def failing(value: Any = None) -> str:
        """Fail."""
        raise ValueError(value)

    async def large(value: Any = None) -> str:
        """Return a large text."""
        return f"{json.dumps(value)}\n" * 20_000

    return [
        tool(plain),
        tool(name="guarded", requires_approval=True)(plain),
        tool(idempotent=True)(gated),
        tool(name="both", requires_approval=True, idempotent=True)(gated),
        tool(failing),
        tool(large),
    ]


async def end_turn(
    batches: Sequence[Sequence[str]], values: Sequence[Any], denied: set[str], *, suspends: bool, one_by_one: bool
) -> Any:
    """Run a turn and answer its questions, in this process or by resuming it; return what can be seen of its end."""
    script: list[Any] = []
    numbers = iter(range(100))
    for batch in batches:
        calls = [(next(numbers), name) for name in batch]
        script.append([Call(f"c{number}", name, {"value": values[number % len(values)]}) for number, name in calls])
    journal, stash = Journal.memory(), Stash({"value": values[0]})
    final: list[Any] = []

    def conclude(ctx: Any) -> str:
        final.append((ctx.stash.all(), ctx.tool_context().tainted))
        return "done"

    def runner(**more: Any) -> TurnRunner:
        model = ScriptedModel(*script, conclude)
        return TurnRunner(
            executor_callback=model,
            tools=ToolRegistry(build_tools()),
            journal=journal,
            state_key=KEY,
            max_repeats=None,
            **more,
        )

    if suspends:
        own = runner(on_wait="suspend")
        report = await own.run(messages=["go", {"role": "user", "content": "x", "extra": values}], stash=stash)
        while report.status == "suspended":
            assert report.state is not None
            answers = {each["id"]: answer(each, values, denied) for each in report.state["pending"]}
            chosen = dict(list(answers.items())[:1]) if one_by_one else answers
            report = await own.resume(json.loads(json.dumps(report.state)), chosen)
    else:

        def approve(request: ApprovalRequest) -> bool:
            return str(request.ctx.tool_call_id) not in denied

        own = runner(approve=approve)
        own.on("turn_gate_open", lambda gate: own.gates.resolve(gate.id, find_answer(gate.id.split()[1], values)))
        report = await own.run(messages=["go", {"role": "user", "content": "x", "extra": values}], stash=stash)
    assert report.error is None
    facts = ("id", "tool", "args", "is_error", "code", "by", "trusted")
    # How much of a large result is shown depends on the calls that run together with it.
    records = [
        (*(getattr(each, name) for name in facts), each.shown is None, await read(each.results))
        for each in report.tool_calls
    ]
    messages = [each.content if isinstance(each, Message) else each for each in report.messages]
    return report.status, report.text, report.iterations, report.usage, messages, records, final


async def read(results: Any) -> Any:
    text = results if isinstance(results, str) else await results.as_text()
    return text if len(text) < 200 else f"{len(text)} {sha256(text.encode()).hexdigest()}"


def answer(pending: Mapping[str, Any], values: Sequence[Any], denied: set[str]) -> Any:
    call_id = pending["tool_call_id"]
    return call_id not in denied if pending["kind"] == "approval" else find_answer(call_id, values)


def find_answer(call_id: str, values: Sequence[Any]) -> Any:
    return values[len(call_id) % len(values)]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(
    batches=BATCHES,
    values=st.lists(JSON, min_size=1, max_size=4),
    denied=st.sets(st.integers(0, 5).map("c{}".format)),
    one_by_one=st.booleans(),
)
@settings(max_examples=examples(50))
def test_a_resumed_turn_ends_like_one_that_was_never_suspended(
    backend: str, batches: Any, values: Any, denied: set[str], *, one_by_one: bool
) -> None:
    async def compare() -> None:
        usual = await end_turn(batches, values, denied, suspends=False, one_by_one=False)
        resumed = await end_turn(batches, values, denied, suspends=True, one_by_one=one_by_one)
        assert resumed == usual

    anyio.run(compare, backend=backend)
