"""`python -m spindle.cli.demo`: a batch of good and hostile calls, and a table of what became of each."""

import sys
from difflib import get_close_matches
from functools import partial
from typing import Any, cast

import anyio
from pydantic_core import to_json

from spindle.calls import Call, Err, Ok
from spindle.cli.demo_calls import Answer, Case, batch, pay_me, shop
from spindle.errors import InvalidToolArgsError, MissingExtraError, ToolAlreadyRegisteredError, ToolDownstreamError
from spindle.events import Events
from spindle.stash import Stash
from spindle.tools.context import ToolContext
from spindle.tools.registry import ToolRegistry


async def answer_all(registry: ToolRegistry, cases: list[Case], stash: Stash) -> list[Answer]:
    """Run the calls side by side; one answer for each, in the order they were asked."""
    answers: dict[int, Answer] = {}

    async def answer(place: int) -> None:
        answers[place] = await answer_one(registry, cases[place], stash)

    async with anyio.create_task_group() as group:
        for place in range(len(cases)):
            group.start_soon(answer, place)
    return [answers[place] for place in range(len(cases))]


async def answer_one(registry: ToolRegistry, case: Case, stash: Stash) -> Answer:
    """Run one call, and see through its events whether its tool was entered."""
    started: list[object] = []
    events = Events()
    events.on("tool_execution_start", started.append)
    context = ToolContext(session_id="demo", events=events, stash=stash, tool_call_id=case.call.tool_call_id)
    result = await run(registry, case.call, context)
    return Answer(case=case, ran=bool(started), result=result)


async def run(registry: ToolRegistry, call: Call, context: ToolContext) -> Ok | Err:
    """Turn whatever happens to one call into its result."""
    tool = registry.get(call.name)
    if tool is None:
        near = get_close_matches(call.name, [tool.name for tool in registry], n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        return Err("not_available", f"There is no tool called '{call.name}'{hint}", field="name")
    try:
        value = await tool.executor(context)(call.args)
    except InvalidToolArgsError as refused:
        return Err("input_invalid", str(refused), field=refused.field)
    except ToolDownstreamError as failed:
        # The exception's own words stay here: this tool did not say that the model may see them.
        return Err("execution_failed", f"The tool {tool.name} failed while it ran.", cause=failed.__cause__)
    return Ok(value if isinstance(value, str) else to_json(value).decode(), structured=value)


def clash(registry: ToolRegistry) -> ToolAlreadyRegisteredError | None:
    """Try to register a second tool under a name that is taken."""
    try:
        registry.register(pay_me, plugin_id="cheap-refunds")
    except ToolAlreadyRegisteredError as refused:
        return refused
    return None


def main() -> None:
    """Run the batch and show the table.

    Raises:
        MissingExtraError: rich is not installed.
    """
    try:
        from spindle.cli.demo_table import show  # noqa: PLC0415 - rich is an extra
    except ModuleNotFoundError as missing:
        raise MissingExtraError(f"the demonstration needs {missing.name}: pip install 'spindle[cli]'") from missing
    if hasattr(sys.stdout, "reconfigure"):
        cast("Any", sys.stdout).reconfigure(errors="replace")  # a terminal that knows only ASCII gets a table too
    registry, stash = shop(), Stash()
    answers = anyio.run(partial(answer_all, registry, batch(), stash))
    show(answers, clash=clash(registry), refunded_cents=stash.get("refunded", 0))


if __name__ == "__main__":
    main()
