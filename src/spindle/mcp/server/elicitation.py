"""Converts gates into requests to an MCP client, and the client's answers into gate values.

A question to the client's user becomes a form (elicitation); `Sampling` and `ListRoots` have their own requests.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from mcp_types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequest,
    InputResponse,
    ListRootsRequest,
    ListRootsResult,
)
from pydantic import TypeAdapter

from spindle.bridges.wire import replace_lone_surrogates
from spindle.calls import Ok
from spindle.errors import GateAbortedError, GateTimeoutError, InvalidGateResolutionError
from spindle.execution.approval import ApprovalRequest
from spindle.execution.approval_text import ApprovalText, render_approval
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.mcp.client.results import to_result
from spindle.mcp.client.upstream_questions import ForwardedSampling
from spindle.mcp.client_requests import Capability, ListRoots, Root, Round, Sampled, Sampling
from spindle.tools.schema.role_paths import remove_roles
from spindle.trust.envelope import to_one_line
from spindle.turns.gates import Gate

_FIELD: Final = "answer"
_PLAIN: Final = frozenset({"string", "number", "integer", "boolean"})
_FORM_WORDS: Final = frozenset(
    {
        *("type", "title", "description", "default", "enum", "enumNames", "oneOf", "format"),
        *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "items"),
    }
)
"""The JSON Schema keywords that the specification allows in a form field."""
_SHOWN_BY_THE_FORM: Final = ("schema", "mode", "key", "elicitation_id")
"""Keys of an upstream server's payload that the form already shows."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


def get_key(gate: Gate) -> str:
    """Return the key of a question: that of an upstream server, or its reason, if valid; otherwise a default."""
    payload: object = gate.payload
    key = cast("Mapping[str, object]", payload).get("key") if isinstance(payload, Mapping) else None
    wanted = key if isinstance(key, str) else gate.reason
    return wanted if _NAME.fullmatch(wanted) else _FIELD


def assign_keys(gates: Sequence[Gate]) -> dict[str, Gate]:
    """Assign a unique key to each question that is asked together."""
    named: dict[str, Gate] = {}
    for gate in gates:
        key = wanted = get_key(gate)
        number = 1
        while key in named:
            number += 1
            key = f"{wanted}_{number}"
        named[key] = gate
    return named


def get_required_capability(gate: Gate) -> Capability:
    """Return the capability that a client must have declared to answer this gate."""
    if isinstance(gate.payload, Sampling | ForwardedSampling):
        return "sampling"
    if _get_url(gate) is not None:
        return "url_elicitation"
    return "roots" if isinstance(gate.payload, ListRoots) else "elicitation"


def _get_url(gate: Gate) -> str | None:
    """Return the address that a client's user is asked to open."""
    payload: object = gate.payload
    if not isinstance(payload, Mapping):
        return None
    facts = cast("Mapping[str, object]", payload)
    return str(facts["url"]) if facts.get("mode") == "url" and "url" in facts else None


def build_request(gate: Gate) -> InputRequest:
    """Convert a gate into the request to the client."""
    asked: object = gate.payload
    if isinstance(asked, ListRoots):
        return ListRootsRequest()
    if isinstance(asked, ForwardedSampling):
        return CreateMessageRequest(
            params=CreateMessageRequestParams.model_validate(replace_lone_surrogates(asked.params))
        )
    if (url := _get_url(gate)) is not None:
        known = cast("Mapping[str, Any]", asked).get("elicitation_id")
        message = replace_lone_surrogates(gate.reason)
        # The older protocol requires an id, with which a server may report that the user has finished.
        params = ElicitRequestURLParams(message=message, url=url, elicitation_id=str(known or gate.id))
        return ElicitRequest(params=params)
    if not isinstance(asked, Sampling):
        return build_form(gate)
    wanted: JsonObject = {
        "messages": asked.messages,
        "maxTokens": asked.max_tokens,
        "systemPrompt": asked.system_prompt,
        "temperature": asked.temperature,
        "stopSequences": list(asked.stop_sequences) or None,
    }
    return CreateMessageRequest(params=CreateMessageRequestParams.model_validate(replace_lone_surrogates(wanted)))


def get_result_type(gate: Gate) -> type[CreateMessageResult | ListRootsResult | ElicitResult]:
    """Return the result type of the request for this gate."""
    match get_required_capability(gate):
        case "sampling":
            return CreateMessageResult
        case "roots":
            return ListRootsResult
        case "elicitation" | "url_elicitation":
            return ElicitResult


def apply_answers(gates: Sequence[Gate], answers: Mapping[str, InputResponse]) -> Round:
    """Settle the gates that have an answer, and return those that must be asked again."""
    for key, gate in assign_keys(gates).items():
        if key in answers and not gate.is_settled:
            apply_answer(gate, answers[key])
    if any(gate.settlement is not None and gate.settlement.result != "resolved" for gate in gates):
        return ()  # one failure cancels the others
    return tuple(gate for gate in gates if not gate.is_settled)


def build_form(gate: Gate) -> ElicitRequest:
    """Convert a gate into a form for the client's user."""
    params = ElicitRequestFormParams(message=_message(gate), requested_schema=_fields(gate.schema)[0])
    return ElicitRequest(params=params)


def apply_answer(gate: Gate, answered: InputResponse) -> None:
    """Settle a gate with the client's answer; an answer of another type is ignored."""
    match get_required_capability(gate), answered:
        case "elicitation" | "url_elicitation", ElicitResult():
            _apply_form_answer(gate, answered)
        case "sampling", CreateMessageResult() | CreateMessageResultWithTools() if isinstance(
            gate.payload, ForwardedSampling
        ):
            gate.resolve(answered)
        case "sampling", CreateMessageResult() | CreateMessageResultWithTools():
            gate.resolve(_parse_sampling_result(answered))
        case "roots", ListRootsResult():
            gate.resolve([Root(uri=str(root.uri), name=root.name) for root in answered.roots])
        case _:
            pass


def _parse_sampling_result(answered: CreateMessageResult | CreateMessageResultWithTools) -> Sampled:
    blocks: Any = answered.content if isinstance(answered.content, list) else [answered.content]
    texts = [block.text for block in blocks if block.type == "text"]
    shown = [block for block in blocks if block.type in {"image", "audio"}]
    read = to_result(CallToolResult(content=shown))
    media = read.media if isinstance(read, Ok) else ()
    return Sampled(text="\n".join(texts), model=answered.model, stop_reason=answered.stop_reason, media=media)


def _apply_form_answer(gate: Gate, answered: ElicitResult) -> None:
    """Settle a gate with the user's answer; an answer that does not match its schema rejects the gate."""
    if answered.action == "accept":
        if _get_url(gate) is not None:
            gate.resolve(True)  # noqa: FBT003  the user has agreed to open the address
            return
        content: Mapping[str, JsonValue] = answered.content or {}
        is_wrapped = _fields(gate.schema)[1]
        try:
            gate.resolve(content.get(_FIELD) if is_wrapped else dict(content))
        except InvalidGateResolutionError as error:
            gate.reject(error)
    elif answered.action == "decline":
        gate.reject(PermissionError("the user declined"))
    else:
        gate.reject(GateAbortedError("the user closed the question without an answer", gate_id=gate.id))


def _message(gate: Gate) -> str:
    """Return the form's message: the payload's question if there is one, otherwise the reason and the payload."""
    payload: object = gate.payload
    if isinstance(payload, ApprovalText):
        return payload.text  # already harmless, and nothing of it may be cut off
    if isinstance(payload, Mapping):
        facts = cast("Mapping[str, object]", payload)
        asked = facts.get("question") or facts.get("message")
        if isinstance(asked, str):
            return to_one_line(asked, 4_000)
        shown = {name: value for name, value in facts.items() if name not in _SHOWN_BY_THE_FORM}
        details = "; ".join(
            f"{to_one_line(str(name), 80)}: {to_one_line(str(value), 500)}" for name, value in shown.items()
        )
        return f"{gate.reason}\n{details}" if details else gate.reason
    return gate.reason if payload is None else f"{gate.reason}: {to_one_line(str(payload), 2_000)}"


def _fields(schema: JsonValue) -> tuple[JsonObject, bool]:
    """Return the schema of the form, and whether its only field holds the whole value."""
    described = _to_json_schema(schema)
    properties = described.get("properties")
    if described.get("type") == "object" and is_object(properties):
        fields = {name: _field(each) for name, each in properties.items()}
        if fields and all(field is not None for field in fields.values()):
            required = [name for name in described.get("required", []) if name in fields]
            return {"type": "object", "properties": fields, "required": required}, False
    field = _field(described) or {"type": "string", "description": "The answer."}
    return {"type": "object", "properties": {_FIELD: field}, "required": [_FIELD]}, True


def _to_json_schema(schema: Any) -> JsonObject:
    if schema is None:
        return {"type": "string"}
    if isinstance(schema, Mapping):
        return dict(cast("Mapping[str, JsonValue]", schema))
    described: JsonObject = TypeAdapter[Any](schema).json_schema()
    remove_roles(described)
    return described


def _field(schema: JsonValue) -> JsonObject | None:
    """Return a form field for a schema, or `None` when a form cannot express it."""
    if not is_object(schema):
        return None
    is_choice = schema.get("type") == "array" and _is_choice(schema.get("items"))
    if "$ref" in schema or not (schema.get("type") in _PLAIN or is_choice):
        return None
    if not all(_is_const(each) for each in schema.get("oneOf", ())):
        return None
    return {name: value for name, value in schema.items() if name in _FORM_WORDS}


def _is_choice(items: JsonValue) -> bool:
    """Return whether the items are a fixed choice of strings, which a form shows as checkboxes."""
    if not is_object(items):
        return False
    return is_array(items.get("enum")) or (bool(items.get("anyOf")) and all(map(_is_const, items["anyOf"])))


def _is_const(option: JsonValue) -> bool:
    return is_object(option) and isinstance(option.get("const"), str)


APPROVAL_SECONDS: Final = 600
_APPROVE: Final[JsonObject] = {"type": "boolean", "title": "Run it?", "default": False}
_SHOW: Final[JsonObject] = {"type": "boolean", "title": "Show every value in full first?", "default": False}


async def approve_by_gate(request: ApprovalRequest) -> bool | str:
    """Ask the user whether the call may run; return the answer, or a reason for denial.

    Raises:
        UnshowableRequestError: The arguments cannot be shown.
    """
    shown = render_approval(request)
    try:
        answer = await _ask_for_approval(request, shown)
        if answer.get("show_in_full") is True:
            answer = await _ask_for_approval(request, render_approval(request, full=True))
    except PermissionError:
        return False
    except GateAbortedError:
        return "the user dismissed the question"
    except GateTimeoutError:
        return "the user did not answer in time"
    return answer["approve"] is True


async def _ask_for_approval(request: ApprovalRequest, shown: ApprovalText) -> JsonObject:
    properties = {"approve": _APPROVE} if shown.is_complete else {"approve": _APPROVE, "show_in_full": _SHOW}
    schema: JsonObject = {"type": "object", "properties": properties, "required": ["approve"]}
    return await request.ctx.wait_for(Gate("approval", shown, schema=schema, timeout_seconds=APPROVAL_SECONDS))
