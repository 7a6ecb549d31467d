"""Spindle tools for LangChain, and LangChain tools for Spindle; for a graph's tool node see `langgraph.py`."""

from collections.abc import Iterable
from secrets import token_hex
from typing import Any, Final

from pydantic import PrivateAttr
from typing_extensions import override

from spindle.bridges.frameworks.adopt import ResultBuilder, adopt, build_adoption_error, check_asyncio
from spindle.bridges.frameworks.session import FrameworkSession, FrameworkSessions, render_for_framework, to_metadata
from spindle.bridges.rendering import MediaPart, RenderedResult
from spindle.bridges.wire import is_list
from spindle.calls import Call, CallOutcome, Err, Ok, RawArgs
from spindle.execution.executor import Executor
from spindle.extras import needs_package
from spindle.json_types import JsonObject, JsonValue, is_object
from spindle.tools.arguments import mask_arguments
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from spindle.tools.schema.role_paths import take_roles
from spindle.turns.context import DispatchContext

with needs_package("langchain-core"):
    from langchain_core.messages import ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool, ToolException
    from langchain_core.tools.base import get_all_basemodel_annotations

MEDIA_TYPES: Final = (
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "application/pdf",
    "audio/mpeg",
    "audio/wav",
)
"""Media types sent as content blocks; whether a model accepts them depends on its provider."""


def tools(
    registry: ToolRegistry | Iterable[Tool],
    *,
    executor: Executor | None = None,
    filter: ToolFilter | None = None,
    ctx: ToolContext | DispatchContext | None = None,
    readers: bool = True,
) -> list[BaseTool]:
    """Return LangChain tools for a registry: `model.bind_tools(tools(registry))`.

    The list serves one conversation, or one for each `thread_id` of the config. With `readers` it includes the tools
    with which the model reads the rest of a truncated result.
    """
    return build_tools(FrameworkSession(registry, executor=executor, filter=filter, ctx=ctx, open_readers=readers))


def build_tools(session: FrameworkSession) -> list[BaseTool]:
    """Return the tools of a session; each `thread_id` gets a session of its own."""
    sessions, known = FrameworkSessions(session), session.tools()
    return [
        SpindleTool(
            sessions,
            tool,
            name=definition["name"],
            description=definition["description"],
            args_schema=definition["parameters"],
            return_direct=tool.return_direct,
        )
        for definition in session.definitions()
        if (tool := known.get(definition["name"])) is not None
    ]


class SpindleTool(BaseTool):
    """A registry's tool, run by an executor; failures are returned as results, never raised.

    Called with a `ToolCall` it returns a `ToolMessage`; with arguments or their JSON text, the content of one.
    """

    _sessions: FrameworkSessions = PrivateAttr()
    _tool: Tool = PrivateAttr()

    def __init__(self, sessions: FrameworkSessions, tool: Tool, **facts: JsonValue) -> None:
        super().__init__(**facts)
        self._sessions, self._tool = sessions, tool

    @override
    def _to_args_and_kwargs(
        self, tool_input: str | JsonObject, tool_call_id: str | None
    ) -> tuple[tuple[str, ...], JsonObject]:
        """Pass the arguments on unchanged: the tool's own schema validates them, whatever their names."""
        return (), {"sent": tool_input, "tool_call_id": tool_call_id}

    @override
    def _filter_injected_args(self, tool_input: JsonObject) -> JsonObject:
        """Mask secrets for tracers and callbacks."""
        return mask_arguments(tool_input, self._tool.secret_fields)

    @override
    def _run(self, sent: RawArgs, tool_call_id: str | None, config: RunnableConfig) -> object:
        session = self._session(config)
        return session.run_blocking(self._answer, session, sent, tool_call_id)

    @override
    async def _arun(self, sent: RawArgs, tool_call_id: str | None, config: RunnableConfig) -> object:
        return await self._answer(self._session(config), sent, tool_call_id)

    def _session(self, config: RunnableConfig | None) -> FrameworkSession:
        return self._sessions.get((config or {}).get("configurable", {}).get("thread_id"))

    async def _answer(self, session: FrameworkSession, sent: RawArgs, tool_call_id: str | None) -> object:
        [outcome] = await session.run([Call(tool_call_id or f"call_{token_hex(4)}", self.name, sent)])
        message = await to_message(outcome)
        return message if tool_call_id is not None else message.content


async def to_message(outcome: CallOutcome, **facts: JsonValue) -> ToolMessage:
    """Return an outcome as the message for its call; `artifact` holds the outcome as plain data."""
    answer = await render_for_framework(outcome, MEDIA_TYPES)
    return ToolMessage(
        content=_content(answer),
        name=outcome.name,
        tool_call_id=outcome.tool_call_id,
        status="error" if answer.is_error else "success",
        artifact=to_metadata(outcome) | facts,
    )


def _content(answer: RenderedResult) -> str | list[str | JsonObject]:
    if not answer.media:
        return answer.text
    blocks: list[str | JsonObject] = []
    for part in answer.parts:
        if isinstance(part, MediaPart):
            kind = part.media.kind if part.media.kind != "document" else "file"
            blocks.append({"type": kind, "base64": part.base64, "mime_type": part.mime_type})
        else:
            blocks.append({"type": "text", "text": part.text})
    return blocks


def tools_of(tools: Iterable[BaseTool], *, config: RunnableConfig | None = None) -> list[Tool]:
    """Return Spindle tools for LangChain tools; `config` is passed to each call, with its callbacks and `configurable`.

    Raises:
        InvalidToolError: A tool requires an injected state, store or runtime, which only a graph provides.
    """
    return [_adopt(each, config) for each in tools]


def _adopt(theirs: BaseTool, config: RunnableConfig | None) -> Tool:
    injected = _find_injected(theirs)
    if injected:
        raise build_adoption_error(theirs.name, f"only a graph can provide {', '.join(sorted(injected))}")
    given: Any = theirs.tool_call_schema  # a dict, or a model of pydantic 2
    schema: JsonObject = dict(given) if is_object(given) else given.model_json_schema()
    schema.pop("description", None)
    roles = None if is_object(given) else take_roles(schema)

    def build_call(args: JsonObject, ctx: ToolContext) -> JsonObject:
        return {"type": "tool_call", "name": theirs.name, "args": args, "id": ctx.tool_call_id or "call"}

    def run(args: JsonObject, ctx: ToolContext, _meta: object) -> object:
        try:
            return _result(theirs.invoke(build_call(args, ctx), config))
        except ToolException as error:
            return _to_err(error)

    async def run_async(args: JsonObject, ctx: ToolContext, _meta: object) -> object:
        try:
            return check_asyncio(theirs.name) or _result(await theirs.ainvoke(build_call(args, ctx), config))
        except ToolException as error:
            return _to_err(error)

    return adopt(
        name=theirs.name,
        description=theirs.description,
        schema=schema,
        handler=run_async if _is_async(theirs) else run,
        return_direct=theirs.return_direct,
        roles=roles,
    )


def _find_injected(theirs: BaseTool) -> set[str]:
    """Return the names of arguments that a graph would inject, except the call id, which is known here."""
    notes = get_all_basemodel_annotations(theirs.get_input_schema())
    hidden = set(theirs._injected_args_keys)  # pyright: ignore[reportPrivateUsage]  no public API
    hidden |= {name for name, note in notes.items() if _is_marked(note, InjectedToolArg)}
    return hidden - {name for name, note in notes.items() if _is_marked(note, InjectedToolCallId)}


def _is_marked(note: object, kind: type[InjectedToolArg]) -> bool:
    marks: tuple[object, ...] = getattr(note, "__metadata__", ())
    return any(issubclass(mark if isinstance(mark, type) else type(mark), kind) for mark in marks)


def _is_async(theirs: BaseTool) -> bool:
    if isinstance(theirs, StructuredTool):
        return theirs.coroutine is not None
    return type(theirs)._arun is not BaseTool._arun  # pyright: ignore[reportPrivateUsage]  no public API


def _to_err(error: ToolException) -> Err:
    return Err("execution_failed", str(error), cause=error)


def _result(given: object) -> Ok | Err:
    if not isinstance(given, ToolMessage):
        kind = type(given).__name__
        return Err("execution_failed", f"The tool returned a {kind}, which only a graph can process.")
    content: object = given.content
    builder = ResultBuilder()
    for block in content if is_list(content) else (content,):
        _add_block(builder, block)
    ok = builder.build()
    return Err("execution_failed", ok.value) if given.status == "error" else ok


def _add_block(builder: ResultBuilder, block: object) -> None:
    if isinstance(block, str):
        builder.add_text(block)
    elif not is_object(block):
        builder.add_json(block)
    elif block.get("type") == "text":
        builder.add_text(str(block.get("text", "")))
    elif isinstance(data := block.get("base64") or block.get("data"), str):
        builder.add_base64(data, block.get("mime_type"))
    elif is_object(image := block.get("image_url")):
        builder.add_url(str(image.get("url", "")))
    elif isinstance(url := block.get("url"), str):
        builder.add_url(url, block.get("mime_type"))
    else:
        builder.add_json(block)
