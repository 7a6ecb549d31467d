"""A LangGraph tool node that runs calls through an executor, and the conditional edge to it."""

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from secrets import token_urlsafe
from typing import Any, Final, Literal

from typing_extensions import override

from spindle.artifacts.forge import can_be_read_back
from spindle.bridges.frameworks.langchain import build_tools, to_message
from spindle.bridges.frameworks.session import MAX_KEPT_RESULTS, EarlierResult, FrameworkSession, History
from spindle.bridges.wire import as_list, is_list, is_mapping
from spindle.calls import Call, CallOutcome, ToolCallRecord
from spindle.execution.approval import ApprovalRequest
from spindle.execution.executor import Executor
from spindle.extras import needs_package
from spindle.json_types import JsonObject
from spindle.tools.arguments import build_redactor, mask_arguments, read_arguments
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from spindle.turns.context import DispatchContext
from spindle.turns.flow_feed import read_texts

with needs_package("langgraph"):
    from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.prebuilt import ToolNode
    from langgraph.runtime import Runtime
    from langgraph.types import interrupt

_KEPT: Final = "kept"
"""Key in a message's facts for the ticket of a result that is kept in full."""
_CHECKPOINTER: Final = "__pregel_checkpointer"
"""Key in a graph's config for its checkpointer; without one it cannot be resumed after an interrupt."""
_CUT: Final = frozenset({"length", "max_tokens", "max_output_tokens"})
"""Finish reasons of responses that were cut off."""


def tool_node(
    registry: ToolRegistry | Iterable[Tool],
    *,
    executor: Executor | None = None,
    filter: ToolFilter | None = None,
    ctx: ToolContext | DispatchContext | None = None,
    name: str = "tools",
    messages_key: str = "messages",
    interrupts: bool = True,
) -> ToolNode:
    """Return a tool node that replaces LangGraph's own: it runs every call of the last message.

    All calls are one batch, including those with invalid JSON. A large result can be read back as long as its message
    is in the state. With `interrupts` a call that needs approval interrupts the graph if the executor has no approver;
    resume it with `True`, `False` or a reason, for all calls or by call id. For a flow policy, the user's words are the
    human messages of the state that have no name.
    """
    session = FrameworkSession(registry, executor=executor, filter=filter, ctx=ctx, open_readers=True)
    return SpindleToolNode(session, name=name, messages_key=messages_key, interrupts=interrupts)


def tools_condition(state: object, messages_key: str = "messages") -> Literal["tools", "__end__"]:
    """Return "tools" if the last message requests calls, including calls with invalid JSON."""
    message = _last(_messages(state, messages_key))
    return "tools" if message is not None and (message.tool_calls or message.invalid_tool_calls) else "__end__"


class SpindleToolNode(ToolNode):
    """A node that runs calls through an executor: one message each, in order, and none before approval is requested."""

    def __init__(self, session: FrameworkSession, *, name: str, messages_key: str, interrupts: bool) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]  LangGraph's types are incomplete
            build_tools(session), name=name, messages_key=messages_key
        )
        self._session = session
        self._key = messages_key
        self._asks = interrupts and not session.has_approver
        self._results = _ResultStore()

    @override
    def _func(self, input: Any, config: RunnableConfig, runtime: Runtime) -> object:
        step = self._step(input, config)
        session = self._open_session(step)
        waiting = session.run_blocking(self._find_waiting, session, step)
        return session.run_blocking(self._run, session, step, _ask(waiting))

    @override
    async def _afunc(self, input: Any, config: RunnableConfig, runtime: Runtime) -> object:
        step = self._step(input, config)
        session = self._open_session(step)
        return await self._run(session, step, _ask(await self._find_waiting(session, step)))

    def _step(self, input: Any, config: RunnableConfig) -> "_Step":
        sent, kind = self._parse_input(input)
        messages = _messages(self._extract_state(input, config), self._key)
        message = _last(messages)
        calls = _parse_calls(message) if message is not None and kind != "tool_calls" else _calls(sent)
        whole = len(calls) if message is None else max(len(calls), len(_parse_calls(message)))
        place = config.get("configurable", {})
        # Without a checkpointer the graph cannot be resumed with an answer.
        stops = self._asks and place.get(_CHECKPOINTER) is not None
        return _Step(calls, whole, kind, messages, place.get("thread_id"), stops)

    def _open_session(self, step: "_Step") -> FrameworkSession:
        known = [_facts(message) for message in step.messages if isinstance(message, ToolMessage)]
        return self._session.new_conversation(
            key=step.thread_id,
            records=self._results.records(fact.get(_KEPT) for fact in known),
            tainted=any(fact.get("tainting", True) for fact in known),
        )

    async def _find_waiting(self, session: FrameworkSession, step: "_Step") -> list[JsonObject]:
        """Return the calls that need approval, with the reasons; a call that will be rejected needs none."""
        if not step.may_interrupt:
            return []
        asked = await session.find_asked(step.calls, _read_history(session, step))
        tools = [(call, session.registry.get(call.name)) for call in step.calls if call.tool_call_id in asked]
        return [_describe_call(call, tool, asked[call.tool_call_id]) for call, tool in tools if tool is not None]

    async def _run(self, session: FrameworkSession, step: "_Step", answers: Mapping[str, bool | str] | None) -> object:
        approve, history = None if answers is None else _Decisions(answers), _read_history(session, step)
        outcomes = await session.run(step.calls, step_calls=step.total_calls, approve=approve, history=history)
        given = [await to_message(outcome, **self._results.put(outcome)) for outcome in outcomes]
        return given if step.kind == "list" else {self._key: given}


@dataclass(frozen=True, slots=True)
class _Step:
    """The input of one run of the node."""

    calls: Sequence[Call]
    total_calls: int
    """The number of calls the model requested together; LangGraph may send them one by one."""
    kind: Literal["list", "dict", "tool_calls"]
    messages: Sequence[object]
    thread_id: str | None
    may_interrupt: bool
    """Whether the graph may be interrupted for approval."""


class _ResultStore:
    """Full results by unguessable ticket: only the holder of a message can read its result."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, ToolCallRecord] = OrderedDict()

    def put(self, outcome: CallOutcome) -> dict[str, str]:
        """Keep a truncated result, and return the facts its message must carry."""
        if not can_be_read_back(outcome):
            return {}
        ticket = token_urlsafe(24)
        self._records[ticket] = outcome.to_record()
        if len(self._records) > MAX_KEPT_RESULTS:
            self._records.popitem(last=False)
        return {_KEPT: ticket}

    def records(self, tickets: Iterable[object]) -> list[ToolCallRecord]:
        """Return the records of these tickets, as far as they are still kept."""
        return [self._records[ticket] for ticket in tickets if isinstance(ticket, str) and ticket in self._records]


class _Decisions:
    """Approval decisions by call id; a call without a decision is denied."""

    def __init__(self, answers: Mapping[str, bool | str]) -> None:
        self._answers = answers

    async def __call__(self, request: ApprovalRequest) -> bool | str:
        return self._answers.get(request.ctx.tool_call_id or "", "no approval was requested for this call")


def _ask(waiting: Sequence[JsonObject]) -> dict[str, bool | str] | None:
    """Interrupt the graph until it is resumed with decisions, and return them."""
    if not waiting:
        return None
    answer: object = interrupt({"approve": list(waiting)})
    ids = [str(each["tool_call_id"]) for each in waiting]
    by_id = answer if is_mapping(answer) else dict.fromkeys(ids, answer)
    return {each: decision if isinstance(decision := by_id.get(each), (bool, str)) else False for each in ids}


def _facts(message: ToolMessage) -> Mapping[str, object]:
    facts: object = message.artifact
    return facts if is_mapping(facts) else {}


def _describe_call(call: Call, tool: Tool, reasons: Sequence[str]) -> JsonObject:
    args = read_arguments(call.args, tool=tool.name, empty_ok=True)
    secrets = build_redactor(args, tool.secret_fields)
    return {
        "tool_call_id": call.tool_call_id,
        "tool": tool.name,
        "args": mask_arguments(args, tool.secret_fields),
        "reasons": [secrets.redact(each) for each in reasons],
    }


def _read_history(session: FrameworkSession, step: "_Step") -> History:
    """Return the user's messages and the results in the state, if a flow policy needs them.

    A message with a name may be that of another agent.
    """
    if not session.has_flow:
        return History()
    return History(
        user_texts=[
            text
            for message in step.messages
            if isinstance(message, HumanMessage) and not message.name
            for text in read_texts(_get_content(message))
        ],
        results=[
            EarlierResult(
                call_id=message.tool_call_id,
                tool=message.name or "",
                text="\n".join(read_texts(_get_content(message))),
                facts=_facts(message),
            )
            for message in step.messages
            if isinstance(message, ToolMessage)
        ],
    )


def _get_content(message: HumanMessage | ToolMessage) -> object:
    return message.content  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  a union of dicts


def _messages(state: object, key: str) -> Sequence[object]:
    if is_list(state):
        return state
    return as_list(state.get(key) if is_mapping(state) else getattr(state, key, None))


def _last(messages: Sequence[object]) -> AIMessage | None:
    return next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)


def _parse_calls(message: AIMessage) -> list[Call]:
    """Return every call of a message; invalid JSON is passed on as text."""
    if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
        # LangChain completes JSON that a stream left unfinished; the chunks hold the original text.
        return _calls(message.tool_call_chunks)
    calls = _calls([*message.tool_calls, *message.invalid_tool_calls])
    if _was_cut(message) and message.tool_calls and not message.invalid_tool_calls:
        # LangChain may have completed the last call's JSON, so treat it as unfinished.
        calls[-1] = replace(calls[-1], args=json.dumps(calls[-1].args, default=str)[:-1])
    return calls


def _was_cut(message: AIMessage) -> bool:
    """Return whether the response was stopped by a token limit."""
    facts: JsonObject = message.response_metadata
    return any(str(facts.get(name)).lower() in _CUT for name in ("finish_reason", "stop_reason", "done_reason"))


def _calls(sent: Iterable[Any]) -> list[Call]:
    return [
        Call(each.get("id") or f"call_{position}", each.get("name") or "", each.get("args"))
        for position, each in enumerate(sent)
    ]
