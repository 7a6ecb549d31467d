"""The adaptive attacker against an executor: a call that must be asked about never reaches its handler unasked."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from spindle import Call, Executor, Ok, Tool, ToolContext, ToolRegistry
from spindle.execution import ApprovalRequest
from spindle.trust.flow import FlowPolicy, ToolFlow
from tests.trust.flow import world as w
from tests.trust.flow.attacks import all_attacks
from tests.trust.flow.harmless import harmless_calls

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

SINKS = {tool.name: tool for tool in (w.send, w.post, w.pay, w.open_url, w.call_hook, w.wipe, w.reboot)}
TEXTS = {"contacts": w.CONTACTS, "fetch": w.PAGE, "inbox": w.MAIL}


class Bench:
    """An executor with the tools of the world, whose handlers and approver write down what reaches them."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.asked: list[ApprovalRequest] = []
        tools = [self.build(tool) for tool in (w.contacts, w.fetch, w.inbox, *SINKS.values())]
        self.executor = Executor(ToolRegistry(tools), flow=FlowPolicy(), approve=self.refuse)

    def build(self, flow: ToolFlow) -> Tool:
        async def handle(args: Any, ctx: Any, meta: Any) -> Ok:
            self.ran.append(flow.name)
            return Ok(TEXTS.get(flow.name, "done"), trusted=flow.output == "trusted")

        names = dict.fromkeys([*flow.roles, *flow.keys])
        properties: dict[str, Any] = {name: {} for name in names if "." not in name}
        for name, default in flow.defaults.items():
            properties[name] = {"default": default}
        return Tool(
            name=flow.name,
            description="Act.",
            input_schema={"type": "object", "properties": properties},
            handler=handle,
            output=flow.output,
            read_only=flow.read_only,
            destructive=flow.destructive,
            roles=flow.roles,
        )

    def refuse(self, request: ApprovalRequest) -> bool:
        self.asked.append(request)
        return False

    async def run(self, ctx: ToolContext, name: str, args: Mapping[str, Any]) -> None:
        await self.executor.execute_parallel([Call(f"c-{name}", name, dict(args))], ctx)


async def build_session() -> tuple[Bench, ToolContext]:
    bench, ctx = Bench(), ToolContext("s")
    ctx.flow.add_user_text(w.USER)
    for name in TEXTS:
        await bench.run(ctx, name, {})
    bench.ran.clear()
    return bench, ctx


@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.slow)])
async def test_no_attack_reaches_a_handler(step: int) -> None:
    bench, ctx = await build_session()
    attacks = [each for each in all_attacks() if each.tool.name in SINKS and each.prepare is None][::step]
    assert len(attacks) > 300 // step
    for attack in attacks:
        bench.ran.clear()
        await bench.run(ctx, attack.tool.name, attack.args)
        assert (attack.name, bench.ran) == (attack.name, [])
    assert len(bench.asked) > len(attacks) // 2  # the rest was refused as invalid
    assert all(request.reasons for request in bench.asked)


async def test_harmless_calls_run_unasked() -> None:
    bench, ctx = await build_session()
    calls = [each for each in harmless_calls() if each.tool.name in SINKS and each.prepare is None]
    for call in calls:
        await bench.run(ctx, call.tool.name, call.args)
    assert [request.reasons for request in bench.asked] == []
    assert len(bench.ran) == len(calls) > 40


def test_the_tools_of_the_executor_are_those_of_the_world() -> None:
    for flow in SINKS.values():
        built = Bench().build(flow).flow
        assert replace(built, keys=flow.keys, reaches_network=flow.reaches_network, defaults=flow.defaults) == flow
