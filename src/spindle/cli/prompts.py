"""Prompts at the terminal: approval of calls, and answers to the gates of tools."""

import json
import sys
from collections.abc import Callable
from typing import Any, cast

from anyio import to_thread

from spindle.cli.arguments import get_types, parse_scalar, resolve_ref
from spindle.cli.output import escape_controls, flatten, print_message, stderr, to_json_value
from spindle.errors import GateNotSupportedError, InvalidGateResolutionError
from spindle.execution.approval import ApprovalRequest, Approve

_MAX_SHOWN_CHARS = 2_000
_YES = {"y", "yes"}


def can_ask() -> bool:
    """Return whether stdin and stderr are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def build_approver(*, yes: bool, before: Callable[[], None]) -> Approve | None:
    """Return the approval callback: always approve with `yes`, else ask at the terminal; `None` without a terminal.

    `before` is called before each prompt, to clear the progress line.
    """
    if yes:
        return _always
    if not can_ask():
        return None

    async def ask(request: ApprovalRequest) -> bool:
        out = stderr()
        before()
        args = json.dumps(request.args, indent=2, ensure_ascii=False, default=to_json_value)
        out.line(f"{out.style(request.tool.name, 'bold')} wants to run with")
        out.text(args if len(args) <= _MAX_SHOWN_CHARS else f"{args[:_MAX_SHOWN_CHARS]}\n… ({len(args)} characters)")
        return (await _answer("Run it? [y/N] ")).strip().lower() in _YES

    return ask


def build_gate_handler(before: Callable[[], None]) -> Callable[[Any], Any]:
    """Return the gate handler that asks at the terminal; `before` is called before each prompt."""

    async def open_gate(gate: Any) -> Any:
        if not can_ask():
            raise GateNotSupportedError("no interactive terminal to ask for an answer")
        before()
        given: Any = gate.payload
        payload = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        while True:
            try:
                gate.resolve(await _ask_for_gate(gate.reason, payload))
            except InvalidGateResolutionError as error:
                print_message(str(error))
            else:
                return gate.settlement.value

    return open_gate


async def _ask_for_gate(reason: str, payload: dict[str, Any]) -> Any:
    """Ask for the value of a gate: a text, one of the options, the fields of a form, or a confirmation of a URL."""
    schema = payload.get("schema")
    if isinstance(schema, dict) and isinstance(cast("dict[str, Any]", schema).get("properties"), dict):
        stderr().line(f"{escape_controls(reason)} (Ctrl-D declines)")
        return await _form(cast("dict[str, Any]", schema))
    if "url" in payload:
        stderr().line(f"{escape_controls(reason)}\n  {escape_controls(str(payload['url']))}")
        return (await _answer("Go on? [y/N] ")).strip().lower() in _YES
    question, options = payload.get("question") or reason, payload.get("options") or ()
    for option in options:
        stderr().line(f"  - {escape_controls(str(option))}")
    while True:
        answer = (await _require_answer(f"{escape_controls(str(question))} ")).strip()
        if not options or answer in options:
            return answer


async def _form(schema: dict[str, Any]) -> dict[str, Any]:
    """Ask for each field of a flat form; an empty answer means the default, or omits the field."""
    values: dict[str, Any] = {}
    required = schema.get("required") or ()
    for name, given in schema["properties"].items():
        field = resolve_ref(given, schema)
        while True:
            text = (await _require_answer(f"  {_label(name, field, is_required=name in required)}: ")).strip()
            if text or "default" in field or name not in required:
                break
        if text:
            values[name] = _parse_field(name, text, field, schema)
        elif "default" in field:
            values[name] = field["default"]
    return values


def _parse_field(name: str, text: str, field: dict[str, Any], schema: dict[str, Any]) -> Any:
    if "array" in get_types(field, schema):
        return [parse_scalar(name, part.strip(), field.get("items", {}), schema) for part in text.split(",")]
    return parse_scalar(name, text, field, schema)


def _label(name: str, field: dict[str, Any], *, is_required: bool) -> str:
    named, items = field.get("title") or name, field.get("items")
    options = field.get("enum") or (cast("dict[str, Any]", items).get("enum") if isinstance(items, dict) else None)
    words = [str(field["description"])] if field.get("description") else []
    words += [" | ".join(map(str, cast("list[object]", options)))] if isinstance(options, list) else []
    words += [f"default {field['default']}"] if "default" in field else [] if is_required else ["optional"]
    return escape_controls(flatten(f"{named} ({'; '.join(words)})" if words else str(named)))


async def _always(_: ApprovalRequest) -> bool:
    return True


async def _require_answer(question: str) -> str:
    answer = await _answer(question)
    if not answer:  # end of file; asking again would loop forever
        raise GateNotSupportedError("the terminal's input was closed before an answer")
    return answer


async def _answer(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return await to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
