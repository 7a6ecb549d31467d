"""Spindle tools as a pydantic-ai toolset, and pydantic-ai tools for Spindle."""

import base64
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, cast

from pydantic import ValidationError
from pydantic_core import to_json
from typing_extensions import override

from spindle.bridges.frameworks.adopt import ResultBuilder, adopt, build_adoption_error, to_result
from spindle.bridges.frameworks.session import (
    EarlierResult,
    FrameworkSession,
    History,
    render_for_framework,
    to_metadata,
)
from spindle.bridges.rendering import MediaPart, Part
from spindle.bridges.wire import is_list
from spindle.calls import Call, Err, Ok, RawArgs
from spindle.errors import InvalidToolArgsError
from spindle.execution.approval import ApprovalRequest
from spindle.execution.executor import Executor
from spindle.extras import needs_package
from spindle.json_types import JsonObject, is_list_or_tuple, is_object
from spindle.tools.arguments import mask_arguments, read_arguments
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from spindle.trust.envelope import render_error
from spindle.turns.context import DispatchContext

with needs_package("pydantic-ai-slim"):
    from pydantic_ai import AbstractToolset, BinaryContent, FunctionToolset, RunContext, ToolDefinition, ToolReturn
    from pydantic_ai import Tool as AgentTool
    from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed
    from pydantic_ai.messages import (
        FileUrl,
        ModelResponse,
        SystemPromptPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.toolsets.abstract import ToolsetTool
    from pydantic_ai.usage import RunUsage

MEDIA_TYPES: Final = (
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "application/pdf",
    "audio/mpeg",
    "audio/wav",
)
"""Media types sent to the model; whether a model accepts them depends on its provider."""

_NO_LIMIT_SECONDS: Final = 365 * 86_400
"""Pydantic-ai abandons a thread only if a tool has a timeout, so set one; the executor's deadline comes first."""


def toolset(
    registry: ToolRegistry | Iterable[Tool],
    *,
    executor: Executor | None = None,
    filter: ToolFilter | None = None,
    ctx: ToolContext | DispatchContext | None = None,
    id: str | None = None,
) -> AbstractToolset[object]:
    """Return a toolset for a registry: `Agent(model, toolsets=[toolset(registry)])`.

    Each run of the agent has its own session, so large results of one run cannot be read in another; with a `ctx` they
    can, for as long as it exists. For a flow policy, the user's words are the prompts with which the runs of the
    conversation began.
    """
    return SpindleToolset(FrameworkSession(registry, executor=executor, filter=filter, ctx=ctx), id=id)


class SpindleToolset(AbstractToolset[object]):
    """A toolset whose calls are run by an executor; failures are reported to the model and do not end the run."""

    def __init__(self, session: FrameworkSession, *, id: str | None = None) -> None:
        self._session = session
        self._id = id

    @property
    @override
    def id(self) -> str | None:
        """The id used by durable execution."""
        return self._id

    @override
    async def for_run(self, ctx: RunContext[object]) -> AbstractToolset[object]:
        """Return a toolset with a new session for the run."""
        # A conversation of several runs is one session for a flow policy; without one, each run has its own.
        key = ctx.conversation_id if self._session.has_flow else None
        return SpindleToolset(self._session.new_conversation(key=key), id=self._id)

    @override
    async def get_tools(self, ctx: RunContext[object]) -> dict[str, ToolsetTool[object]]:
        """Return the tools of this step; called before each step, so that readers of kept results appear."""
        return {
            definition["name"]: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=definition["name"],
                    description=definition["description"],
                    parameters_json_schema=definition["parameters"],
                ),
                max_retries=1,
                args_validator=_PassThroughValidator(definition["name"]),
            )
            for definition in self._session.definitions()
        }

    @override
    async def call_tool(
        self, name: str, tool_args: JsonObject, ctx: RunContext[object], tool: ToolsetTool[object]
    ) -> ToolReturn[object]:
        """Run one call.

        Raises:
            ToolFailed: The call failed; the model sees why, and it does not count as a retry.
            ApprovalRequired: The call needs approval, and the executor has no approver.
        """
        step = _step(ctx)
        sent = next((part for part in step if part.tool_call_id == ctx.tool_call_id), None)
        call = Call(ctx.tool_call_id or "call", name, _args(tool_args, sent))
        person = _AgentApproval(agreed=ctx.tool_call_approved)
        history = _read_history(ctx) if self._session.has_flow else History()
        [outcome] = await self._session.run([call], step_calls=len(step), approve=person, history=history)
        if person.request is not None:
            raise ApprovalRequired(metadata=person.request)
        answer = await render_for_framework(outcome, MEDIA_TYPES)
        if answer.is_error:
            raise ToolFailed(answer.text)
        shown = [_content(part) for part in answer.parts]
        return ToolReturn(answer.text if not answer.media else shown, metadata=to_metadata(outcome))


class _PassThroughValidator:
    """A validator that accepts any arguments: the tool's own schema validates them when it is called."""

    def __init__(self, tool: str) -> None:
        self._tool = tool

    def validate_json(
        self,
        input: str | bytes | bytearray,
        *,
        allow_partial: bool | Literal["off", "on", "trailing-strings"] = False,  # noqa: ARG002
        **_: object,
    ) -> JsonObject:
        sent = bytes(input) if isinstance(input, bytearray) else input
        try:
            return read_arguments(sent, tool=self._tool, empty_ok=True)
        except InvalidToolArgsError as error:
            raise ToolFailed(render_error(str(error), by="spindle", tool=self._tool)) from error

    def validate_python(
        self,
        input: object,
        *,
        allow_partial: bool | Literal["off", "on", "trailing-strings"] = False,  # noqa: ARG002
        **_: object,
    ) -> object:
        return input


class _AgentApproval:
    """Approval by the agent's own means: already granted, or still to be requested."""

    def __init__(self, *, agreed: bool) -> None:
        self._agreed = agreed
        self.request: JsonObject | None = None

    async def __call__(self, request: ApprovalRequest) -> bool:
        if not self._agreed:
            shown = mask_arguments(request.args, request.tool.secret_fields)
            reasons = list(request.reasons)
            self.request = {
                "tool": request.tool.name,
                "args": shown,
                "checksum": request.checksum,
                "reasons": reasons,
            }
        return self._agreed


def _step(ctx: RunContext[object]) -> list[ToolCallPart]:
    """Return the calls that the model requested together with this one."""
    response = next((message for message in reversed(ctx.messages) if isinstance(message, ModelResponse)), None)
    return [] if response is None else [part for part in response.parts if isinstance(part, ToolCallPart)]


def _read_history(ctx: RunContext[object]) -> History:
    """Return the prompts of the conversation's runs, and the results of all toolsets, for a flow policy.

    Only the prompt with which a run began is the user's: tools can add parts that look like one.
    """
    texts = list(_read_prompt(ctx.prompt))
    results: list[EarlierResult] = []
    runs, is_open = set[str](), True
    for message in ctx.messages:
        if isinstance(message, ModelResponse):
            is_open = not any(isinstance(part, ToolCallPart) for part in message.parts)
            continue
        # A part of another kind answers a call: its result, or why it has to be made again.
        answers = [part for part in message.parts if not isinstance(part, (SystemPromptPart, UserPromptPart))]
        results += [_read_result(part) for part in answers]
        is_start = is_open and not answers and message.run_id not in runs
        prompts = [part for part in message.parts if isinstance(part, UserPromptPart)] if is_start else []
        texts += [text for part in prompts for text in _read_prompt(part.content)]
        if message.run_id is not None:
            runs.add(message.run_id)
        is_open = False
    return History(user_texts=texts, results=results)


def _read_prompt(prompt: object) -> list[str]:
    parts: Sequence[object] = (prompt,) if isinstance(prompt, str) else prompt if is_list_or_tuple(prompt) else ()
    return [part for part in parts if isinstance(part, str)]


def _read_result(part: object) -> EarlierResult:
    facts = getattr(part, "metadata", None)
    return EarlierResult(
        call_id=str(getattr(part, "tool_call_id", "")),
        tool=str(getattr(part, "tool_name", "")),
        text=part.model_response_str() if isinstance(part, ToolReturnPart) else "",
        facts=facts if is_object(facts) else {},
    )


def _args(given: JsonObject, sent: ToolCallPart | None) -> RawArgs:
    # The framework turns missing arguments into `{}`, which only a tool without parameters may accept.
    return sent.args if not given and sent is not None and not sent.args else given


def _content(part: Part) -> str | BinaryContent:
    if isinstance(part, MediaPart):
        return BinaryContent(base64.b64decode(part.base64), media_type=part.mime_type)
    return part.text


def tools_of(
    tools: FunctionToolset[Any] | Iterable[AgentTool[Any] | Callable[..., object]],
    *,
    run_context: RunContext[Any] | None = None,
) -> list[Tool]:
    """Return Spindle tools for a `FunctionToolset`, or a list of `pydantic_ai.Tool` and functions.

    Raises:
        InvalidToolError: A tool requires a `RunContext`, and none was passed.
    """
    held = tools if isinstance(tools, FunctionToolset) else FunctionToolset[Any](list(tools))
    context = run_context or RunContext(deps=None, model=TestModel(), usage=RunUsage())
    adopted: list[Tool] = []
    for name, each in held.tools.items():
        if run_context is None and (each.takes_ctx or each.args_validator is not None or each.prepare is not None):
            raise build_adoption_error(name, "it requires a RunContext; pass one with run_context=")
        if each.prepare is not None:
            raise build_adoption_error(name, "it is prepared for each step; use await tools_of_toolset(...) instead")
        adopted.append(_adopt(held, held.tool_for_tool_def(each.tool_def, ctx=context), context))
    return adopted


async def tools_of_toolset(theirs: AbstractToolset[Any], run_context: RunContext[Any]) -> list[Tool]:
    """Return Spindle tools for the current tools of any toolset (MCP, prefixed, filtered), which must be entered.

    Raises:
        InvalidToolError: A tool is executed elsewhere (`external`).
    """
    return [_adopt(theirs, each, run_context) for each in (await theirs.get_tools(run_context)).values()]


def _adopt(theirs: AbstractToolset[Any], each: ToolsetTool[Any], run_context: RunContext[Any]) -> Tool:
    definition = each.tool_def
    if definition.kind == "external":
        raise build_adoption_error(definition.name, "it is executed outside of the agent")
    patient = replace(each, tool_def=replace(definition, timeout=definition.timeout or _NO_LIMIT_SECONDS))

    async def run(args: JsonObject, ctx: ToolContext, _meta: object) -> object:
        context = replace(
            run_context,
            tool_name=definition.name,
            tool_call_id=ctx.tool_call_id,
            # A tool that raises ApprovalRequired itself has no approval yet.
            tool_call_approved=definition.kind == "unapproved",
        )
        try:
            valid = await _validate(args, each, context)
            return _result(await theirs.call_tool(definition.name, valid, context, patient))
        except ValidationError as error:
            words = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            return Err("input_invalid", f"The arguments for {definition.name} are invalid: {words}", cause=error)
        except (ModelRetry, ToolFailed) as error:
            return Err("execution_failed", error.message, retryable=isinstance(error, ModelRetry), cause=error)
        except (ApprovalRequired, CallDeferred) as error:
            return Err(
                "needs_approval", f"Tool {definition.name!r} waits for an external approval or result.", cause=error
            )

    return adopt(
        name=definition.name,
        description=definition.description,
        schema=definition.parameters_json_schema,
        handler=run,
        requires_approval=definition.kind == "unapproved",
        timeout_seconds=definition.timeout,
    )


async def _validate(args: JsonObject, each: ToolsetTool[object], context: RunContext[object]) -> JsonObject:
    valid = each.args_validator.validate_json(to_json(args), context=context.validation_context)
    if each.args_validator_func is not None:
        waiting = each.args_validator_func(context, **valid)
        if inspect.isawaitable(waiting):
            await waiting
    return valid


def _result(value: object) -> object:
    if isinstance(value, ToolReturn):
        answer = cast("ToolReturn[object]", value)
        parts: list[object] = [answer.return_value]
        more = answer.content
        parts += [more] if isinstance(more, str) else list(more or ())
        return _result(parts[0]) if len(parts) == 1 else _combine_parts(parts)
    if isinstance(value, (BinaryContent, FileUrl)):
        return _combine_parts([value])
    if is_list(value) and any(isinstance(part, (BinaryContent, FileUrl)) for part in value):
        return _combine_parts(value)
    return to_result(value)


def _combine_parts(parts: Sequence[object]) -> Ok:
    builder = ResultBuilder()
    for part in parts:
        if isinstance(part, BinaryContent):
            builder.add_data(part.data, part.media_type)
        elif isinstance(part, FileUrl):
            builder.add_url(part.url)
        elif isinstance(part, str):
            builder.add_text(part)
        else:
            builder.add_json(part)
    return builder.build()
