"""Our tools as a pydantic-ai toolset, and pydantic-ai's tools as ours."""

import base64
from collections.abc import Iterable
from typing import Any, Final, Literal

from typing_extensions import override

from spindle.bridges.frameworks.packages import needs_package
from spindle.bridges.frameworks.running import Session, answered, facts_of
from spindle.bridges.rendering import MediaPart, Part
from spindle.calls import Call, RawArgs
from spindle.errors import InvalidToolArgsError
from spindle.execution.approval import ApprovalRequest
from spindle.execution.executor import Executor
from spindle.tools.arguments import read_arguments
from spindle.tools.context import ToolContext
from spindle.tools.filters import ToolFilter
from spindle.tools.masking import masked
from spindle.tools.registry import ToolRegistry
from spindle.tools.tool import Tool
from spindle.trust.envelope import fence
from spindle.turns.context import DispatchContext

with needs_package("pydantic-ai-slim"):
    from pydantic_ai import AbstractToolset, BinaryContent, RunContext, ToolDefinition, ToolReturn
    from pydantic_ai.exceptions import ApprovalRequired, ToolFailed
    from pydantic_ai.messages import ModelResponse, ToolCallPart
    from pydantic_ai.toolsets.abstract import ToolsetTool

SHOWN: Final = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "audio/mpeg", "audio/wav")
"""What is given to the model as it is; whether a model takes it, its provider says."""


def toolset(
    registry: ToolRegistry | Iterable[Tool],
    *,
    executor: Executor | None = None,
    filter: ToolFilter | None = None,
    ctx: ToolContext | DispatchContext | None = None,
    id: str | None = None,
) -> AbstractToolset[Any]:
    """Give a registry to an agent: `Agent(model, toolsets=[toolset(registry)])`.

    Each run of the agent has a session of its own, so large results of one run cannot be read in another; with a
    `ctx` they can, as long as it lives.
    """
    return SpindleToolset(Session(registry, executor=executor, filter=filter, ctx=ctx), id=id)


class SpindleToolset(AbstractToolset[Any]):
    """A toolset whose calls are run by an executor; what went wrong is told to the model, and ends no run."""

    def __init__(self, session: Session, *, id: str | None = None) -> None:
        self._session = session
        self._id = id

    @property
    @override
    def id(self) -> str | None:
        """What durable execution knows it by."""
        return self._id

    @override
    async def for_run(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        """Begin a run with nothing kept of any other."""
        return SpindleToolset(self._session.fresh(), id=self._id)

    @override
    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """List the tools of this step: asked before each, so that readers of what was kept appear."""
        return {
            told["name"]: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=told["name"], description=told["description"], parameters_json_schema=told["parameters"]
                ),
                max_retries=1,
                args_validator=_AsSent(told["name"]),
            )
            for told in self._session.definitions()
        }

    @override
    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> ToolReturn[Any]:
        """Run one call.

        Raises:
            ToolFailed: It has no result; the model is told why, and its retries are not counted.
            ApprovalRequired: A person must agree first, and the executor asks nobody.
        """
        asked = _step(ctx)
        sent = next((part for part in asked if part.tool_call_id == ctx.tool_call_id), None)
        call = Call(ctx.tool_call_id or "call", name, _args(tool_args, sent))
        person = _Person(agreed=ctx.tool_call_approved)
        [outcome] = await self._session.run([call], step_calls=len(asked), approve=person)
        if person.request is not None:
            raise ApprovalRequired(metadata=person.request)
        answer = await answered(outcome, SHOWN)
        if answer.is_error:
            raise ToolFailed(answer.text)
        shown = [_content(part) for part in answer.parts]
        return ToolReturn(answer.text if not answer.media else shown, metadata=facts_of(outcome))


class _AsSent:
    """Takes arguments as they are: the tool's own schema judges them when it is called, and judges harder."""

    def __init__(self, tool: str) -> None:
        self._tool = tool

    def validate_json(
        self,
        input: str | bytes | bytearray,
        *,
        allow_partial: bool | Literal["off", "on", "trailing-strings"] = False,  # noqa: ARG002
        **_: Any,
    ) -> dict[str, Any]:
        sent = bytes(input) if isinstance(input, bytearray) else input
        try:
            return read_arguments(sent, tool=self._tool, empty_ok=True)
        except InvalidToolArgsError as error:
            raise ToolFailed(fence(str(error), trusted=False, kind="tool-error", tool=self._tool)) from error

    def validate_python(
        self,
        input: Any,
        *,
        allow_partial: bool | Literal["off", "on", "trailing-strings"] = False,  # noqa: ARG002
        **_: Any,
    ) -> Any:
        return input


class _Person:
    """Stands for whoever is asked by the agent's own means: has agreed already, or has not been asked yet."""

    def __init__(self, *, agreed: bool) -> None:
        self._agreed = agreed
        self.request: dict[str, Any] | None = None

    async def __call__(self, request: ApprovalRequest) -> bool:
        if not self._agreed:
            shown = masked(request.args, request.tool.secret_fields)
            self.request = {"tool": request.tool.name, "args": shown, "checksum": request.checksum}
        return self._agreed


def _step(ctx: RunContext[Any]) -> list[ToolCallPart]:
    """Find the calls that the model asked for together with this one."""
    said = next((message for message in reversed(ctx.messages) if isinstance(message, ModelResponse)), None)
    return [] if said is None else [part for part in said.parts if isinstance(part, ToolCallPart)]


def _args(given: dict[str, Any], sent: ToolCallPart | None) -> RawArgs:
    # The framework has made `{}` of nothing, which only a tool without parameters may take for its arguments.
    return sent.args if not given and sent is not None and not sent.args else given


def _content(part: Part) -> str | BinaryContent:
    if isinstance(part, MediaPart):
        return BinaryContent(base64.b64decode(part.base64), media_type=part.mime_type)
    return part.text
