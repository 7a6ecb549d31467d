"""A gate as a form that an MCP client shows to its user, and the answer back."""

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult
from pydantic import TypeAdapter

from spindle.errors import GateAbortedError, InvalidGateResolutionError
from spindle.trust.envelope import one_line
from spindle.turns.gate import Gate

_FIELD: Final = "answer"
_PLAIN: Final = frozenset({"string", "number", "integer", "boolean"})
_FORM_WORDS: Final = frozenset(
    {
        *("type", "title", "description", "default", "enum", "enumNames", "oneOf", "format"),
        *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "items"),
    }
)
"""What the specification lets a field of a form say."""
_SHOWN_BY_THE_FORM: Final = ("schema", "mode")
"""What an upstream server's question says beside its words."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


def key_of(gate: Gate) -> str:
    """Name a question, for a client that answers several: by its reason, where that is a name."""
    return gate.reason if _NAME.fullmatch(gate.reason) else _FIELD


def form_of(gate: Gate) -> ElicitRequest:
    """Write a gate as the request that asks a client's user."""
    params = ElicitRequestFormParams(message=_message(gate), requested_schema=_fields(gate.schema)[0])
    return ElicitRequest(params=params)


def settle(gate: Gate, answered: ElicitResult) -> None:
    """Settle a gate with what the user said; an answer that does not fit gives the gate up."""
    if answered.action == "accept":
        content: Mapping[str, Any] = answered.content or {}
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
    """Say what is asked: the payload's own question where it has one, else the reason and the payload's facts."""
    payload: object = gate.payload
    if isinstance(payload, Mapping):
        facts = cast("Mapping[str, object]", payload)
        asked = facts.get("question") or facts.get("message")
        if isinstance(asked, str):
            return one_line(asked, 4_000)
        shown = {name: value for name, value in facts.items() if name not in _SHOWN_BY_THE_FORM}
        told = "; ".join(f"{one_line(str(name), 80)}: {one_line(str(value), 500)}" for name, value in shown.items())
        return f"{gate.reason}\n{told}" if told else gate.reason
    return gate.reason if payload is None else f"{gate.reason}: {one_line(str(payload), 2_000)}"


def _fields(schema: Any) -> tuple[dict[str, Any], bool]:
    """Give the form, and whether its one field stands for the whole value."""
    described = _described(schema)
    properties = described.get("properties")
    if described.get("type") == "object" and isinstance(properties, Mapping):
        fields = {name: _field(each) for name, each in cast("Mapping[str, Any]", properties).items()}
        if fields and all(field is not None for field in fields.values()):
            required = [name for name in described.get("required", []) if name in fields]
            return {"type": "object", "properties": fields, "required": required}, False
    field = _field(described) or {"type": "string", "description": "The answer."}
    return {"type": "object", "properties": {_FIELD: field}, "required": [_FIELD]}, True


def _described(schema: Any) -> dict[str, Any]:
    if schema is None:
        return {"type": "string"}
    if isinstance(schema, Mapping):
        return dict(cast("Mapping[str, Any]", schema))
    return TypeAdapter[Any](schema).json_schema()


def _field(schema: Any) -> dict[str, Any] | None:
    """Give a field of a form; `None` for what a form cannot ask."""
    if not isinstance(schema, Mapping):
        return None
    given = cast("Mapping[str, Any]", schema)
    is_choice = given.get("type") == "array" and _is_choice(given.get("items"))
    if "$ref" in given or not (given.get("type") in _PLAIN or is_choice):
        return None
    if not all(_is_const(each) for each in given.get("oneOf", ())):
        return None
    return {name: value for name, value in given.items() if name in _FORM_WORDS}


def _is_choice(items: Any) -> bool:
    """Say whether a list's items are texts to choose from, which a form shows as boxes to tick."""
    if not isinstance(items, Mapping):
        return False
    given = cast("Mapping[str, Any]", items)
    return isinstance(given.get("enum"), list) or (bool(given.get("anyOf")) and all(map(_is_const, given["anyOf"])))


def _is_const(option: Any) -> bool:
    return isinstance(option, Mapping) and isinstance(cast("Mapping[str, Any]", option).get("const"), str)
