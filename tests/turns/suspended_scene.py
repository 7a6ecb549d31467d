"""Tools that need a person, and runners that suspend, for the tests of suspended turns."""

import json
from typing import Any

from spindle import Call, Gate, Journal, Tool, ToolContext, TurnReport, TurnRunner, tool
from spindle.testing import ScriptedModel

KEY = "a state key for tests"


class Shop:
    """Tools whose effects are counted, for a model with a script; each runner is a new one, as in another process."""

    def __init__(self, journal: Journal, *script: Any, **settings: Any) -> None:
        self.journal = journal
        self.script = script
        self.settings: dict[str, Any] = {"state_key": KEY, "on_wait": "suspend", **settings}
        self.ran: list[str] = []
        self.tools: list[Any] = self.build_tools()

    def runner(self, **settings: Any) -> TurnRunner:
        model = ScriptedModel(*self.script)
        facts: dict[str, Any] = {
            "executor_callback": model,
            "tools": self.tools,
            "journal": self.journal,
            **self.settings,
        }
        return TurnRunner(**(facts | settings))

    async def run(self, **arguments: Any) -> TurnReport:
        facts: dict[str, Any] = {"messages": ["go"], **arguments}
        return await self.runner().run(**facts)

    async def resume(self, state: Any, answers: Any = None, **arguments: Any) -> TurnReport:
        """Resume in another runner, with the state as a store of JSON returns it."""
        return await self.runner().resume(json.loads(json.dumps(state)), answers, **arguments)

    def build_tools(self, *, about: str = "") -> list[Tool]:
        @tool(description=f"Pay an amount. {about}", requires_approval=True, secret_fields=["card"])
        async def pay(amount: int, card: str = "") -> str:
            """Pay an amount."""
            self.ran.append(f"pay {amount}")
            return f"paid {amount} with {card}" if card else f"paid {amount}"

        @tool
        async def look(what: str, *, ctx: ToolContext) -> str:
            """Look at something."""
            self.ran.append(f"look {what}")
            ctx.stash.set(f"seen.{what}", ctx.tool_call_id)
            return f"saw {what}"

        @tool(idempotent=True)
        async def ask(question: str, *, ctx: ToolContext) -> str:
            """Ask a person two things."""
            self.ran.append(f"ask {question}")
            size = await ctx.wait_for(Gate("size?", {"of": question}, schema=int, timeout_seconds=60, id="size"))
            name = await ctx.wait_for(Gate("name?", timeout_seconds=60, id="name"))
            return f"{question}: {size} {name}"

        @tool(description=f"Ask a person one thing. {about}", idempotent=True)
        async def confirm(question: str, *, ctx: ToolContext) -> str:
            """Ask a person one thing."""
            self.ran.append(f"confirm {question}")
            answer = await ctx.wait_for(Gate(question, schema=bool, timeout_seconds=60, id=f"confirm {question}"))
            return f"{question}: {answer}"

        return [pay, look, ask, confirm]


def waits(report: TurnReport) -> list[str]:
    """Return the tickets and gate ids that a suspended turn waits for."""
    assert report.status == "suspended", (report.status, report.error)
    assert report.state is not None
    return [each["id"] for each in report.state["pending"]]


def results(report: TurnReport) -> list[tuple[str, Any]]:
    """Return the id and the result of each call of a report."""
    return [(record.id, record.results) for record in report.tool_calls]


PAY = Call("c1", "pay", {"amount": 5})
LOOK = Call("c2", "look", {"what": "tea"})
