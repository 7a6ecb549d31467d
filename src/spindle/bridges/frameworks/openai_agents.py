"""Spindle tools for the OpenAI Agents SDK, and its function tools for Spindle; the SDK requires asyncio."""

import copy
import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from spindle.bridges.frameworks.adopt import ResultBuilder, adopt, build_adoption_error, check_asyncio, to_result
from spindle.bridges.frameworks.session import (
    MAX_KEPT_RESULTS,
    EarlierResult,
    FrameworkSession,
    History,
    render_for_framework,
)
from spindle.bridges.rendering import MediaPart, RenderedResult
from spindle.bridges.wire import is_list, is_mapping
from spindle.calls import Call
from spindle.execution.approval import ApprovalRequest
from spindle.execution.executor import Executor
from spindle.extras import needs_package
from spindle.json_types import JsonObject
from spindle.tools.arguments import build_redactor
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.entry import is_available
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from spindle.turns.context import DispatchContext
from spindle.turns.flow_feed import read_texts

with needs_package("openai-agents"):
    from agents import (
        AgentBase,
        FunctionTool,
        RunContextWrapper,
        ToolApprovalItem,
        ToolOutputFileContent,
        ToolOutputImage,
        ToolOutputText,
    )
    from agents import Tool as AgentsTool
    from agents.tool import invoke_function_tool, set_function_tool_failure_error_function
    from agents.tool_context import ToolContext as AgentsToolContext

MEDIA_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")
"""Media types sent to the model."""


def tools(
    registry: ToolRegistry | Iterable[Tool],
    *,
    executor: Executor | None = None,
    filter: ToolFilter | None = None,
    ctx: ToolContext | DispatchContext | None = None,
    readers: bool = True,
) -> list[AgentsTool]:
    """Return tools for an agent: `Agent(name, tools=tools(registry))`.

    The list serves one conversation: create a new one for each. With `readers`, tools with which the model reads the
    rest of a result appear once one was truncated. A call that needs approval interrupts the run if the executor has
    no approver; `get_reasons` says why. For a flow policy, the user's words are the user messages of the run's input.
    """
    session = FrameworkSession(registry, executor=executor, filter=filter, ctx=ctx, open_readers=readers)
    known = session.tools()
    named = [(definition, known.get(definition["name"])) for definition in session.definitions()]
    return [_build_tool(session, tool, definition["parameters"]) for definition, tool in named if tool is not None]


def _build_tool(session: FrameworkSession, tool: Tool, schema: JsonObject) -> FunctionTool:
    question = _ApprovalQuestion(session, tool)
    asks = not session.has_approver and (tool.requires_approval or session.may_ask(tool))

    async def invoke(ctx: AgentsToolContext[Any], arguments: str) -> object:
        call = Call(ctx.tool_call_id, tool.name, arguments)
        agreed = asks and ctx.is_tool_approved(tool.name, ctx.tool_call_id) is True
        approve = _has_agreed if agreed else None
        [outcome] = await session.run([call], approve=approve, history=_read_history(session, ctx))
        return _output(await render_for_framework(outcome, MEDIA_TYPES))

    def is_enabled(_ctx: RunContextWrapper[Any], _agent: AgentBase) -> bool:
        return session.can_read(tool.name) if tool.is_artifact_reader else is_available(tool)

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=schema,
        on_invoke_tool=invoke,
        # The schema is enforced as written; strict mode would rewrite it.
        strict_json_schema=False,
        is_enabled=is_enabled,
        needs_approval=question if asks else False,
    )


class _ApprovalQuestion:
    """Decides whether a person is asked about a call, and keeps the reasons for that person."""

    def __init__(self, session: FrameworkSession, tool: Tool) -> None:
        self._session = session
        self._tool = tool
        self.reasons: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    async def __call__(self, ctx: RunContextWrapper[Any], args: JsonObject, call_id: str) -> bool:
        call, session = Call(call_id, self._tool.name, args), self._session
        asked = await session.find_asked([call], _read_history(session, ctx))
        if call_id not in asked:
            return False
        secrets = build_redactor(args, self._tool.secret_fields)
        self.reasons[call_id] = tuple(secrets.redact(each) for each in asked[call_id])
        if len(self.reasons) > MAX_KEPT_RESULTS:
            self.reasons.popitem(last=False)
        return True


def get_reasons(tools: Iterable[object], interruption: ToolApprovalItem) -> tuple[str, ...]:
    """Return why a person is asked about an interruption of a run, in sentences, if its flow policy requires it."""
    for each in tools:
        question: object = getattr(each, "needs_approval", None)
        if isinstance(question, _ApprovalQuestion) and interruption.call_id in question.reasons:
            return question.reasons[interruption.call_id]
    return ()


def _read_history(session: FrameworkSession, ctx: RunContextWrapper[Any]) -> History:
    """Return the user's messages and the results in the input of a run, for a flow policy.

    The input of an agent that is used as a tool was written by a model.
    """
    if not session.has_flow:
        return History()
    items: list[JsonObject] = [dict(each) for each in cast("list[Mapping[str, Any]]", ctx.turn_input)]
    is_nested = ctx.tool_input is not None
    names: dict[object, object] = {each.get("call_id"): each.get("name") for each in items if "name" in each}
    return History(
        user_texts=[
            text
            for each in items
            if each.get("role") == "user" and not is_nested
            for text in read_texts(each.get("content"))
        ],
        results=[
            EarlierResult(
                call_id=str(each.get("call_id") or each.get("id") or ""),
                tool=str(names.get(each.get("call_id")) or ""),
                text="\n".join(read_texts(each.get("output"))),
                facts={},
            )
            for each in items
            if str(each.get("type", "")).endswith("_output")
        ],
    )


async def _has_agreed(_request: ApprovalRequest) -> bool:
    return True


def _output(answer: RenderedResult) -> str | list[object]:
    if not answer.media:
        return answer.text
    parts: list[object] = []
    for part in answer.parts:
        if not isinstance(part, MediaPart):
            parts.append(ToolOutputText(text=part.text))
        elif part.media.kind == "image":
            parts.append(ToolOutputImage(image_url=f"data:{part.mime_type};base64,{part.base64}"))
        else:
            data = f"data:{part.mime_type};base64,{part.base64}"
            parts.append(ToolOutputFileContent(file_data=data, filename=part.media.safe_filename))
    return parts


def tools_of(tools: Iterable[object], *, context: object = None) -> list[Tool]:
    """Return Spindle tools for the SDK's function tools, except disabled ones; `context` is passed to each call.

    Raises:
        InvalidToolError: It is not a function tool, or has guardrails or a callable `is_enabled`.
    """
    return [_adopt(each, context) for each in tools if getattr(each, "is_enabled", True) is not False]


def _adopt(theirs: object, context: object) -> Tool:
    name = str(getattr(theirs, "name", theirs))
    if not isinstance(theirs, FunctionTool):
        raise build_adoption_error(
            name, f"expected a FunctionTool, got a {type(theirs).__name__}, which the provider runs itself"
        )
    if theirs.tool_input_guardrails or theirs.tool_output_guardrails:
        raise build_adoption_error(name, "it has guardrails, which only the SDK's own runner applies")
    if callable(theirs.is_enabled):
        raise build_adoption_error(name, "its is_enabled is a callable, which needs an agent; set it to True or False")
    # By default, an exception would be returned as text that looks like a result.
    raising = set_function_tool_failure_error_function(copy.copy(theirs), None)

    async def run(args: JsonObject, ctx: ToolContext, _meta: object) -> object:
        unfit = check_asyncio(name)
        if unfit is not None:
            return unfit
        text, call_id = json.dumps(args), ctx.tool_call_id or "call"
        around = AgentsToolContext(context, tool_name=name, tool_call_id=call_id, tool_arguments=text)
        return _result(await invoke_function_tool(function_tool=raising, context=around, arguments=text))

    return adopt(
        name=name,
        description=theirs.description,
        schema=theirs.params_json_schema,
        handler=run,
        # Approval may depend on the arguments; then require it for every call.
        requires_approval=theirs.needs_approval is not False,
        timeout_seconds=theirs.timeout_seconds,
    )


def _result(output: object) -> object:
    parts = output if is_list(output) else [output]
    builder = ResultBuilder()
    are_theirs = bool(parts) and all(_add_part(builder, part) for part in parts)
    return builder.build() if are_theirs else to_result(output)


def _add_part(builder: ResultBuilder, part: object) -> bool:
    """Add one part if it is of the SDK's output types; return whether it was."""
    facts: JsonObject = dict(part) if is_mapping(part) else getattr(part, "model_dump", dict)()
    match facts:
        case {"type": "text", "text": str(text)}:
            builder.add_text(text)
        case {"type": "image", "image_url": str(url)}:
            builder.add_url(url)
        case {"type": "file", "file_data": str(data)}:
            if data.startswith("data:"):
                builder.add_url(data)
            else:
                builder.add_base64(data, None, facts.get("filename"))
        case {"type": "file", "file_url": str(url)}:
            builder.add_url(url)
        case {"type": "image" | "file", "file_id": str(id)}:
            builder.add_text(f"[file {id}]")
        case _:
            return False
    return True
