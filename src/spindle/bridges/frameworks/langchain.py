"""Spindle tools for LangChain, and LangChain tools for Spindle; for a graph's tool node see `langgraph.py`."""

from collections.abc import Iterable, Mapping
from secrets import token_hex
from typing import Any, Final, cast

from pydantic import PrivateAttr
from typing_extensions import override

from spindle.bridges.frameworks.adopt import ResultBuilder, adopt, build_adoption_error, check_asyncio, to_result
from spindle.bridges.frameworks.session import FrameworkSession, FrameworkSessions, render_for_framework, to_metadata
from spindle.bridges.rendering import MediaPart, RenderedResult
from spindle.calls import Call, CallOutcome, Err, RawArgs
from spindle.execution.executor import Executor
from spindle.extras import needs_package
from spindle.tools.arguments import mask_arguments
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
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
            name=told["name"],
            description=told["description"],
            args_schema=told["parameters"],
            return_direct=tool.return_direct,
        )
        for told in session.definitions()
        if (tool := known.get(told["name"])) is not None
    ]


class SpindleTool(BaseTool):
    """A registry's tool, run by an executor; failures are returned as results, never raised.

    Called with a `ToolCall` it returns a `ToolMessage`; with arguments or their JSON text, the content of one.
    """

    _sessions: FrameworkSessions = PrivateAttr()
    _tool: Tool = PrivateAttr()

    def __init__(self, sessions: FrameworkSessions, tool: Tool, **facts: Any) -> None:
        super().__init__(**facts)
        self._sessions, self._tool = sessions, tool

    @override
    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Pass the arguments on unchanged: the tool's own schema validates them, whatever their names."""
        return (), {"sent": tool_input, "tool_call_id": tool_call_id}

    @override
    def _filter_injected_args(self, tool_input: dict[str, Any]) -> dict[str, Any]:
        """Mask secrets for tracers and callbacks."""
        return mask_arguments(tool_input, self._tool.secret_fields)

    @override
    def _run(self, sent: RawArgs, tool_call_id: str | None, config: RunnableConfig) -> Any:
        session = self._session(config)
        return session.run_blocking(self._answer, session, sent, tool_call_id)

    @override
    async def _arun(self, sent: RawArgs, tool_call_id: str | None, config: RunnableConfig) -> Any:
        return await self._answer(self._session(config), sent, tool_call_id)

    def _session(self, config: RunnableConfig | None) -> FrameworkSession:
        return self._sessions.get((config or {}).get("configurable", {}).get("thread_id"))

    async def _answer(self, session: FrameworkSession, sent: RawArgs, tool_call_id: str | None) -> Any:
        [outcome] = await session.run([Call(tool_call_id or f"call_{token_hex(4)}", self.name, sent)])
        message = await to_message(outcome)
        return message if tool_call_id is not None else message.content


async def to_message(outcome: CallOutcome, **facts: Any) -> ToolMessage:
    """Return an outcome as the message for its call; `artifact` holds the outcome as plain data."""
    answer = await render_for_framework(outcome, MEDIA_TYPES)
    return ToolMessage(
        content=_content(answer),
        name=outcome.name,
        tool_call_id=outcome.tool_call_id,
        status="error" if answer.is_error else "success",
        artifact=to_metadata(outcome) | facts,
    )


def _content(answer: RenderedResult) -> Any:
    if not answer.media:
        return answer.text
    blocks: list[dict[str, Any]] = []
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
    return [_adopted(each, config) for each in tools]


def _adopted(theirs: BaseTool, config: RunnableConfig | None) -> Tool:
    injected = _injected(theirs)
    if injected:
        raise build_adoption_error(theirs.name, f"only a graph can provide {', '.join(sorted(injected))}")
    schema = cast("Any", theirs.tool_call_schema)
    told: dict[str, Any] = {**(schema if isinstance(schema, Mapping) else schema.model_json_schema())}
    told.pop("description", None)

    def asked(args: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
        return {"type": "tool_call", "name": theirs.name, "args": args, "id": ctx.tool_call_id or "call"}

    def run(args: dict[str, Any], ctx: ToolContext, _meta: Any) -> Any:
        try:
            return _result(theirs.invoke(asked(args, ctx), config))
        except ToolException as error:
            return _failed(error)

    async def run_async(args: dict[str, Any], ctx: ToolContext, _meta: Any) -> Any:
        try:
            return check_asyncio(theirs.name) or _result(await theirs.ainvoke(asked(args, ctx), config))
        except ToolException as error:
            return _failed(error)

    return adopt(
        name=theirs.name,
        description=theirs.description,
        schema=told,
        handler=run_async if _is_async(theirs) else run,
        return_direct=theirs.return_direct,
    )


def _injected(theirs: BaseTool) -> set[str]:
    """Return the names of arguments that a graph would inject, except the call id, which is known here."""
    notes = get_all_basemodel_annotations(theirs.get_input_schema())
    hidden = set(theirs._injected_args_keys)  # pyright: ignore[reportPrivateUsage]  no public API
    hidden |= {name for name, note in notes.items() if _is_marked(note, InjectedToolArg)}
    return hidden - {name for name, note in notes.items() if _is_marked(note, InjectedToolCallId)}


def _is_marked(note: Any, kind: type[InjectedToolArg]) -> bool:
    marks: tuple[Any, ...] = getattr(note, "__metadata__", ())
    return any(issubclass(mark if isinstance(mark, type) else type(mark), kind) for mark in marks)


def _is_async(theirs: BaseTool) -> bool:
    if isinstance(theirs, StructuredTool):
        return theirs.coroutine is not None
    return type(theirs)._arun is not BaseTool._arun  # pyright: ignore[reportPrivateUsage]  no public API


def _failed(error: ToolException) -> Err:
    return Err("execution_failed", str(error), cause=error)


def _result(given: Any) -> Any:
    if not isinstance(given, ToolMessage):
        kind = type(given).__name__
        return Err("execution_failed", f"The tool returned a {kind}, which only a graph can process.")
    content = cast("str | list[str | dict[str, Any]]", given.content)
    said = ResultBuilder()
    for block in [content] if isinstance(content, str) else content:
        _add_block(said, block)
    ok = said.build()
    if given.status == "error":
        return Err("execution_failed", ok.value)
    return to_result(ok)


def _add_block(said: ResultBuilder, block: str | Mapping[str, Any]) -> None:
    if isinstance(block, str):
        said.add_text(block)
    elif block.get("type") == "text":
        said.add_text(str(block.get("text", "")))
    elif isinstance(data := block.get("base64") or block.get("data"), str):
        said.add_base64(data, block.get("mime_type"))
    elif isinstance(image := block.get("image_url"), Mapping):
        said.add_url(str(cast("Mapping[str, Any]", image).get("url", "")))
    elif isinstance(url := block.get("url"), str):
        said.add_url(url, block.get("mime_type"))
    else:
        said.add_json(block)
