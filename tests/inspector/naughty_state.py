"""A server whose every text is a naughty string: definitions of an upstream, arguments, results, errors, ids, names."""

import json
import sys
from pathlib import Path
from typing import Any

from spindle import Call, Tool, ToolContext, TurnRunner
from spindle.cli import Runtime, load_config, open_runtime
from spindle.errors import CallError
from spindle.testing import ScriptedModel
from spindle.turns import Reply
from tests.inspector.browsing import run_async

HERE = Path(__file__).resolve().parent
CONFIG = """
[tools]
kit = true

[mcp.servers.naughty]
command = "{python}"
args = ["{server}", "{strings}"]
sandbox = "none"
"""
ANY: dict[str, Any] = {"type": "object", "additionalProperties": True}
TIMES = 12
"""How often all strings are in one large result, so that it is spooled."""


def prepare_naughty(folder: Path, strings: Path) -> list[str]:
    """Write the configuration, fill the state folder, and return the strings."""
    text = CONFIG.format(python=sys.executable, server=HERE / "naughty_server.py", strings=strings)
    (folder / "spindle.toml").write_text(text, encoding="utf-8")
    config = load_config(folder / "spindle.toml", state=folder / "state")
    naughty: list[str] = json.loads(strings.read_text(encoding="utf-8"))

    async def fill() -> None:
        async with open_runtime(config, wait_for_servers=False) as runtime:
            for tool in build_tools(naughty):
                runtime.registry.register(tool)
            await fill_journal(runtime, naughty)

    run_async(fill)
    return naughty


def build_tools(naughty: list[str]) -> list[Tool]:
    """Return tools that return, raise or spool strings; of some, the name is a string, too."""

    async def echo(args: dict[str, Any], _ctx: ToolContext, _meta: object) -> object:
        return args

    async def fail(args: dict[str, Any], _ctx: ToolContext, _meta: object) -> object:
        raise CallError(str(args["text"]))

    async def write_text(_args: dict[str, Any], _ctx: ToolContext, _meta: object) -> str:
        return "\n".join(naughty * TIMES)

    async def write_json(_args: dict[str, Any], _ctx: ToolContext, _meta: object) -> object:
        return [{text: text, "number": number, "list": [text, {text: None}]} for number, text in enumerate(naughty * 3)]

    async def write_markdown(_args: dict[str, Any], _ctx: ToolContext, _meta: object) -> str:
        return "\n".join(to_markdown(text) for text in naughty * 2)

    def build(name: str, handler: Any, **more: Any) -> Tool:
        return Tool(name=name, description=name, input_schema=ANY, handler=handler, **more)

    named = [build(text, echo) for text in naughty if text.strip()]
    return [
        build("echo", echo),
        build("fail", fail),
        build("ask", echo, requires_approval=True),
        build("write_text", write_text),
        build("write_json", write_json),
        build("write_markdown", write_markdown),
        *{each.name: each for each in named}.values(),
    ]


def to_markdown(text: str) -> str:
    """Return a string as each part of Markdown that is shown, and as those that are not."""
    line = text.replace("\n", " ")
    return (
        f"## {line}\n\n{text}\n\n- {line}\n  1. {line}\n\n> {line}\n\n```{line}\n{text}\n```\n\n"
        f"| {line} | b |\n| --- | --- |\n| {line} | `{line}` |\n\n"
        f"**{line}** *{line}* [{line}]({line}) ![{line}]({line}) <{line}> <b>{line}</b>\n\n"
        f'[{line}]: {line}\n\n<div onclick="alert(1)">{line}</div>\n'
    )


async def fill_journal(runtime: Runtime, naughty: list[str]) -> None:
    """Run calls, turns and requests for approval whose texts are the strings."""
    execute = runtime.executor.execute_parallel
    for number, text in enumerate(naughty):
        ctx = ToolContext(text or "none", turn_id=text or None, caller={"name": text, text: text})
        calls = [
            Call(text or f"e{number}", "echo", {"text": text, text: text, "list": [text, {text: text}]}),
            Call(f"f{number}", "fail", {"text": text}),
            Call(f"n{number}", text or "none", {"text": text}),
        ]
        await execute(calls, ctx)
    for number, text in enumerate(naughty):
        args = {"text": text, text: [text, number]}
        await execute([Call(f"a{number}", "ask", args)], ToolContext(text or "none", caller={"name": text}))
    await run_naughty_turn(runtime, naughty)
    whole = ToolContext("\n".join(naughty)[:400], turn_id=naughty[60])
    await execute([Call("all", "echo", {"keys": {text: text for text in naughty}, "list": list(naughty)})], whole)
    await execute(
        [Call(f"{naughty[200]}{each}", each, {}) for each in ("write_text", "write_json", "write_markdown")], whole
    )


async def run_naughty_turn(runtime: Runtime, naughty: list[str]) -> None:
    """Run a turn whose prompt, messages, calls and replies are the strings."""
    calls = [Call(f"t{number}", "echo", {text: text}) for number, text in enumerate(naughty[:100])]
    model = ScriptedModel(
        Reply(text="\n".join(naughty), calls=calls),
        Reply(text=naughty[250], calls=[Call("u", naughty[300], {})]),
        naughty[400],
    )
    runner = TurnRunner(executor_callback=model, tools=runtime.registry, executor=runtime.executor, spool=runtime.spool)
    await runner.run(
        system_prompt="\n".join(naughty),
        messages=[{"role": "user", "content": text} for text in naughty if text.strip()],
        session_id=naughty[200],
        caller={"name": naughty[201]},
    )
