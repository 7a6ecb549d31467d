"""A dry run validates, authorises and resolves, says what would happen, and does none of it."""

from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from spindle import (
    Backends,
    Call,
    Capabilities,
    Executor,
    Journal,
    Ok,
    Reducer,
    ReducerRegistry,
    ToolContext,
    ToolRegistry,
)
from spindle.execution.approval import ApprovalRequest
from tests.execution.calling import call, counting, err, execute, execute_one, giving, make, ok

pytestmark = pytest.mark.anyio

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def dry() -> ToolContext:
    return ToolContext("s1", dry_run=True)


async def test_a_dry_run_describes_the_call_and_runs_nothing() -> None:
    tool, runs = counting()

    outcome = await execute_one(tool, '{"b": [1, {"c": null}], "a": "ü"}', ctx=dry())

    assert ok(outcome).value == '[dry-run] count would be called with: {"b":[1,{"c":null}],"a":"ü"}'
    assert outcome.attempts == 0
    assert runs == []


async def test_a_dry_run_describes_a_call_without_arguments() -> None:
    tool, _ = counting()

    (outcome,) = await execute([tool], [Call("c1", "count", None)], ctx=dry())

    assert ok(outcome).value == "[dry-run] count would be called with: {}"


async def test_long_texts_are_cut_at_500_wherever_they_are() -> None:
    tool, _ = counting()
    long, just = "x" * 501, "y" * 500

    outcome = await execute_one(tool, {"top": long, "list": [long, {"deep": long}], "just": just}, ctx=dry())

    cut = '"' + "x" * 500 + '...[truncated, 501 chars]"'
    shown = f'{{"top":{cut},"list":[{cut},{{"deep":{cut}}}],"just":"{just}"}}'
    assert ok(outcome).value == f"[dry-run] count would be called with: {shown}"


async def test_a_dry_run_masks_secrets() -> None:
    tool, _ = counting(secret_fields=["key", "nested"])

    outcome = await execute_one(tool, {"key": "hunter2", "nested": {"a": "hunter2"}, "other": 1}, ctx=dry())

    assert ok(outcome).value == '[dry-run] count would be called with: {"key":"***","nested":"***","other":1}'


@pytest.mark.parametrize("args", ['{"n": "x"}', "{", '{"n": 1} {}', "[]", {}])
async def test_bad_arguments_are_invalid_in_a_dry_run_too(args: Any) -> None:
    tool, runs = counting(input_schema=NUMBER)

    assert err(await execute_one(tool, args, ctx=dry())).code == "input_invalid"
    assert runs == []


async def test_every_other_gate_comes_before_a_dry_run() -> None:
    def check(_args: Any, _ctx: Any) -> None:
        raise ValueError("no")

    tools = [
        giving("x", "away", is_available=lambda: False),
        giving("x", "needy", capabilities=Capabilities(network=["a.example"])),
        giving("x", "checked", checks=[check]),
    ]

    outcomes = await execute(tools, [call(name) for name in ("gone", "away", "needy", "checked")], ctx=dry())

    codes = ["not_available", "not_available", "not_available", "input_invalid"]
    assert [err(each).code for each in outcomes] == codes


def _preview(_args: Any, _ctx: Any) -> str:
    return "would count"


@pytest.mark.parametrize("has_approver", [True, False])
@pytest.mark.parametrize("preview", [None, _preview])
async def test_a_dry_run_never_asks_for_approval_but_mentions_it(preview: Any, *, has_approver: bool) -> None:
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    tool, runs = counting(requires_approval=True, preview=preview)

    outcome = await execute_one(tool, ctx=dry(), approve=approve if has_approver else None)

    assert ok(outcome).value.startswith("[dry-run]")
    assert "Approval would be needed" in ok(outcome).value
    assert "Approval" not in ok(await execute_one(counting()[0], ctx=dry())).value
    assert (asked, runs) == ([], [])


async def test_a_tools_own_preview_speaks_for_it() -> None:
    def preview(args: Any, ctx: ToolContext) -> str:
        assert ctx.dry_run
        storage: Any = ctx.storage
        return f"would delete {args['n']} rows of {storage['table']}"

    async def late(args: Any, ctx: ToolContext) -> str:
        await anyio.lowlevel.checkpoint()
        return preview(args, ctx)

    storage: Any = {"table": "orders"}
    for each in (preview, late):
        tool, runs = counting(preview=each, input_schema=NUMBER, capabilities=Capabilities(storage="tool"))
        outcome = await execute_one(tool, {"n": 3}, ctx=dry(), backends=Backends(storage=storage))
        assert ok(outcome).value == "[dry-run] would delete 3 rows of orders"
        assert runs == []


@dataclass
class Secretive:
    key: str


async def test_a_preview_cannot_show_a_secret() -> None:
    def preview(args: Secretive, _ctx: Any) -> str:
        return f"would log in with {args.key}"

    tool, _ = counting(preview=preview, secret_fields=["key"], input_schema=Secretive)

    assert ok(await execute_one(tool, {"key": "hunter2"}, ctx=dry())).value == "[dry-run] would log in with ***"


@pytest.mark.parametrize("raised", [RuntimeError("key hunter2"), SystemExit(1), KeyboardInterrupt(), BaseException()])
@pytest.mark.parametrize("expose", [False, True])
async def test_a_preview_that_raises_has_failed(raised: BaseException, expose: bool) -> None:
    def preview(_args: Any, _ctx: Any) -> str:
        raise raised

    tool, runs = counting(preview=preview, expose_errors=expose, secret_fields=["key"])
    outcomes = await execute([tool, giving("x")], [call("count", {"key": "hunter2"}), call("give")], ctx=dry())

    failed = err(outcomes[0])
    assert failed.code == "execution_failed"
    assert (type(raised).__name__ in failed.error) is expose
    assert "hunter2" not in failed.error
    assert outcomes[1].ok
    assert runs == []


@pytest.mark.parametrize("said", [None, 5, b"x", ["x"], Ok("x")], ids=repr)
async def test_a_preview_is_text(said: Any) -> None:
    def preview(_args: Any, _ctx: Any) -> Any:
        return said

    tool, _ = counting(preview=preview)

    assert err(await execute_one(tool, ctx=dry())).code == "execution_failed"


async def test_a_dry_run_is_neither_cached_nor_answered_from_the_cache() -> None:
    tool, runs = counting(cache=True)
    executor = Executor(ToolRegistry([tool]))

    (first,) = await executor.execute_parallel([call("count")], dry())
    (real,) = await executor.execute_parallel([call("count")], ToolContext("s1"))
    (again,) = await executor.execute_parallel([call("count")], dry())

    assert ok(real).value == "ran"
    assert len(runs) == 1
    assert ok(first).value == ok(again).value
    assert ok(again).value.startswith("[dry-run]")


async def test_a_dry_run_is_not_reduced_and_not_journalled() -> None:
    class Shorter(Reducer):
        tool_name = "count"

        def reduce(self, result: Any, info: Any) -> Any:
            return Ok("-")

    reducers = ReducerRegistry()
    reducers.register(Shorter())
    tool, _ = counting()

    async with Journal.memory() as journal:
        outcome = await execute_one(tool, ctx=dry(), reducers=reducers, journal=journal)
        entries = await journal.list()

    assert ok(outcome).value.startswith("[dry-run] count")
    assert entries == []


async def test_a_dry_run_lets_go_of_the_resources_it_named() -> None:
    def write(_args: Any, _ctx: Any, _meta: Any) -> str:
        return "wrote"

    def resources(_args: Any) -> list[str]:
        return ["file"]

    tool = make("write", write, resources=resources)
    executor = Executor(ToolRegistry([tool]))

    with anyio.fail_after(30):
        await executor.execute_parallel([call("write"), call("write")], dry())
        outcomes = await executor.execute_parallel([call("write"), call("write")], ToolContext("s1"))

    assert [ok(each).value for each in outcomes] == ["wrote", "wrote"]


async def test_a_dry_run_is_not_trusted_although_its_tool_is() -> None:
    assert ok(await execute_one(giving("x", trusted=True), ctx=dry())).trusted is False
