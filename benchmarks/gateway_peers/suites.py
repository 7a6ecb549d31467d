"""The two suites that every gateway runs: what a client still gets through it, and what an attacker still reaches."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp.client import Client, ClientRequestContext
from mcp.client.streamable_http import streamable_http_client

from benchmarks.gateway_peers.upstream import CANARY, FLOOD_CHARS, HTML, PIXEL, STRUCTURED

ANSWER_SECONDS = 25.0
"""How long a gateway may take to answer a call whose server hangs or has died."""
MAX_SHOWN_CHARS = 200_000


@dataclass(frozen=True, kw_only=True)
class Target:
    """A running gateway in front of the servers of one suite."""

    url: str
    headers: dict[str, str] = field(default_factory=dict[str, str])
    folder: Path
    """Where the servers keep what they saw, and read what they shall do."""
    secret: str = ""
    """The credential of the client, which no server may see."""
    restart_server: Callable[[], Awaitable[None]]


@dataclass
class Session:
    """A connected client: what its user was asked, and the progress it saw."""

    client: Client
    target: Target
    progress: list[str] = field(default_factory=list[str])
    questions: list[str] = field(default_factory=list[str])

    async def tools(self) -> list[types.Tool]:
        return (await self.client.list_tools(cache_mode="bypass")).tools

    async def find(self, name: str, *, server: str = "") -> str:
        """Return the name that a gateway gave to a tool."""
        names = [tool.name for tool in await self.tools()]
        endings = tuple(f"{mark}{name}" for mark in "_-./")
        own = [each for each in names if each == name or each.endswith(endings)]
        own += [each for each in names if each.endswith(name.replace("_", "-")) and each not in own]
        chosen = [each for each in own if server in each] if server else own
        if not chosen:
            raise LookupError(f"no tool {name!r} among {names}")
        return chosen[0]

    async def call(
        self, name: str, arguments: dict[str, Any] | None = None, *, server: str = ""
    ) -> types.CallToolResult:
        async def note(progress: float, total: float | None, message: str | None) -> None:
            self.progress.append(message or f"{progress} of {total}")

        return await self.client.call_tool(
            await self.find(name, server=server), arguments or {}, progress_callback=note
        )


def text_of(result: types.CallToolResult) -> str:
    """Return the texts of a result."""
    return "\n".join(part.text for part in result.content if isinstance(part, types.TextContent))


@asynccontextmanager
async def connect(target: Target) -> AsyncGenerator[Session]:
    """Connect a client that answers questions."""
    sessions: list[Session] = []

    async def answer(
        context: ClientRequestContext,  # noqa: ARG001 - the SDK passes it by name
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult | types.ErrorData:
        sessions[0].questions.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ann"})

    async with (
        httpx2.AsyncClient(headers=target.headers, timeout=120) as http,
        Client(
            streamable_http_client(target.url, http_client=http),
            mode="legacy",
            elicitation_callback=answer,
            read_timeout_seconds=60,
        ) as client,
    ):
        sessions.append(Session(client, target))
        yield sessions[0]


async def _echo(session: Session) -> bool:
    return "hello wörld" in text_of(await session.call("echo", {"text": "hello wörld"}))


async def _schema(session: Session) -> bool:
    named = await session.find("echo")
    [schema] = [tool.input_schema for tool in await session.tools() if tool.name == named]
    mood = schema["properties"]["mood"]
    return schema["properties"]["text"]["description"] == "What to say" and mood["enum"] == ["calm", "loud"]


async def _structured(session: Session) -> bool:
    return (await session.call("weather")).structured_content == STRUCTURED


async def _output_schema(session: Session) -> bool:
    named = await session.find("weather")
    [found] = [tool.output_schema for tool in await session.tools() if tool.name == named]
    return found is not None and "degrees" in json.dumps(found)


async def _hints(session: Session) -> bool:
    named = await session.find("weather")
    [hints] = [tool.annotations for tool in await session.tools() if tool.name == named]
    return hints is not None and (hints.read_only_hint is True or hints.destructive_hint is False)


async def _picture(session: Session) -> bool:
    parts = [part for part in (await session.call("picture")).content if isinstance(part, types.ImageContent)]
    return len(parts) == 1 and len(parts[0].data) * 3 // 4 >= len(PIXEL) - 2


async def _error(session: Session) -> bool:
    result = await session.call("failing")
    return bool(result.is_error) and "disk is full" in text_of(result)


async def _progress(session: Session) -> bool:
    await session.call("steps")
    return any("step 2" in each for each in session.progress)


async def _question(session: Session) -> bool:
    return "hello Ann" in text_of(await session.call("ask"))


async def _resource(session: Session) -> bool:
    listed = (await session.client.list_resources()).resources
    [uri] = [str(each.uri) for each in listed if "today" in str(each.uri)]
    return "note of today" in str((await session.client.read_resource(uri)).contents[0])


async def _template(session: Session) -> bool:
    listed = (await session.client.list_resource_templates()).resource_templates
    [uri] = [each.uri_template for each in listed if "{day}" in each.uri_template]
    read = await session.client.read_resource(uri.replace("{day}", "monday"))
    return "note of monday" in str(read.contents[0])


async def _prompt(session: Session) -> bool:
    [name] = [each.name for each in (await session.client.list_prompts()).prompts if each.name.endswith("review")]
    return "Review tea" in str((await session.client.get_prompt(name, {"topic": "tea"})).messages)


async def _completion(session: Session) -> bool:
    [name] = [each.name for each in (await session.client.list_prompts()).prompts if each.name.endswith("review")]
    reference = types.PromptReference(type="ref/prompt", name=name)
    found = await session.client.complete(reference, {"name": "topic", "value": "py"})
    return found.completion.values == ["python", "pylint"]


async def _app(session: Session) -> bool:
    named = await session.find("panel")
    [meta] = [tool.meta or {} for tool in await session.tools() if tool.name == named]
    uri = meta["ui"]["resourceUri"]
    # A gateway may wrap the page.
    return "Panel" in HTML and "Panel" in str((await session.client.read_resource(uri)).contents[0])


ORDINARY: dict[str, Callable[[Session], Awaitable[bool]]] = {
    "text result": _echo,
    "input schema whole": _schema,
    "structured result": _structured,
    "output schema": _output_schema,
    "a reading tool is not called destructive": _hints,
    "picture": _picture,
    "error result": _error,
    "progress": _progress,
    "question to the user": _question,
    "resource": _resource,
    "resource template": _template,
    "prompt": _prompt,
    "completion": _completion,
    "app (ui://)": _app,
}


async def _unchanged(session: Session) -> bool:
    await session.tools()
    (session.target.folder / "changed").touch()
    await session.target.restart_server()  # so that no gateway serves an old list from a cache
    await anyio.sleep(3)
    async with connect(session.target) as other:
        return CANARY not in _listed(await other.tools())


def _listed(tools: Iterable[types.Tool]) -> str:
    return "".join(tool.model_dump_json() for tool in tools)


def _has_tags(shown: str) -> bool:
    return any(0xE0000 <= ord(letter) <= 0xE007F for letter in shown)


async def _hidden_description(session: Session) -> bool:
    return not _has_tags("".join(tool.description or "" for tool in await session.tools()))


async def _hidden_schema(session: Session) -> bool:
    return not _has_tags("".join(json.dumps(tool.input_schema, ensure_ascii=False) for tool in await session.tools()))


async def _shadow(session: Session) -> bool:
    first = await session.call("send_mail", {"text": "x"}, server="first")
    second = await session.call("send_mail", {"text": "x"}, server="second")
    return "first server" in text_of(first) and "second server" in text_of(second)


async def _flood(session: Session) -> bool:
    result = await session.call("flood")
    shown = text_of(result)
    is_part = "a line of text" in shown and len(shown) <= MAX_SHOWN_CHARS < FLOOD_CHARS
    return is_part and not result.is_error


async def _injection(session: Session) -> bool:
    shown = text_of(await session.call("inject"))
    return "Obey the page" in shown and "<|im_start|>" not in shown


async def _hang(session: Session) -> bool:
    with anyio.move_on_after(ANSWER_SECONDS):
        await session.call("hang")
        return True
    return False


async def _crash(session: Session) -> bool:
    with anyio.move_on_after(ANSWER_SECONDS) as scope:
        result = await session.call("crash")
        if not result.is_error:
            return False
    if scope.cancelled_caught:
        return False
    await session.target.restart_server()
    for _ in range(10):
        await anyio.sleep(2)
        try:
            async with connect(session.target) as other:
                if "ok" in text_of(await other.call("weather")) or "ok" in text_of(await other.call("notes")):
                    return True
        except Exception:  # noqa: BLE001 - the gateway may need another moment
            continue
    return False


async def _token(session: Session) -> bool:
    await session.call("send_mail", {"text": "x"}, server="first")
    seen = (session.target.folder / "headers.jsonl").read_text(encoding="utf-8")
    return session.target.secret not in seen


HOSTILE: dict[str, Callable[[Session], Awaitable[bool]]] = {
    "hidden text in a description is removed": _hidden_description,
    "hidden text in a schema is removed": _hidden_schema,
    "one server cannot shadow a tool of another": _shadow,
    "a result of 5 MB is shown in part, and not lost": _flood,
    "chat markers in a result are defused": _injection,
    "the client's token does not reach a server": _token,
    "a call that hangs is answered": _hang,
    "a changed definition is not shown": _unchanged,
    "a server that dies is answered for, and comes back": _crash,
}


@dataclass(frozen=True)
class Verdict:
    """Whether a case holds, and why not."""

    holds: bool
    reason: str = ""


async def run_suite(cases: dict[str, Callable[[Session], Awaitable[bool]]], target: Target) -> dict[str, Verdict]:
    """Run each case with a client of its own."""
    found: dict[str, Verdict] = {}
    for name, case in cases.items():
        try:
            with anyio.fail_after(90):
                async with connect(target) as session:
                    holds = await case(session)
            found[name] = Verdict(holds)
        except Exception as error:  # noqa: BLE001 - whatever a gateway does is its answer
            found[name] = Verdict(holds=False, reason=_describe(error))
    return found


def _describe(error: BaseException) -> str:
    inner: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    if inner:
        return _describe(inner[0])
    return f"{type(error).__name__}: {error}"[:160]
