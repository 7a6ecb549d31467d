"""Prompts at the terminal: approval of calls, and answers to the gates of tools."""

import getpass
import os
import sys
from collections.abc import Awaitable, Callable

from anyio import to_thread

from spindle.cli.arguments import get_types, parse_scalar, resolve_ref
from spindle.cli.output import escape_controls, print_message, stderr
from spindle.errors import GateNotSupportedError, InvalidGateResolutionError
from spindle.execution.approval import ApprovalRequest
from spindle.execution.approval_text import render_approval
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.text import to_line
from spindle.turns.gates import Gate

_YES = {"y", "yes"}


def can_ask() -> bool:
    """Return whether stdin and stderr are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str) -> bool:
    """Ask a question at the terminal and return whether the answer is yes; without a terminal it is no."""
    if not can_ask():
        return False
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in _YES


def build_approver(
    *, yes: bool, before: Callable[[], None]
) -> Callable[[ApprovalRequest], Awaitable[bool | str]] | None:
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
        shown = render_approval(request, indent=True)
        out.text(shown.text)
        answer = (
            await _answer(f"Run it? [y/N{'' if shown.is_complete else ', v shows every value in full'}] ")
        ).strip()
        if answer.lower() == "v" and not shown.is_complete:
            out.text(render_approval(request, full=True, indent=True).text)
            answer = (await _answer("Run it? [y/N] ")).strip()
        return answer.lower() in _YES

    return ask


def build_gate_handler(before: Callable[[], None]) -> Callable[[Gate], Awaitable[JsonValue]]:
    """Return the gate handler that asks at the terminal; `before` is called before each prompt."""

    async def open_gate(gate: Gate) -> JsonValue:
        if not can_ask():
            raise GateNotSupportedError("no interactive terminal to ask for an answer")
        before()
        given: JsonValue = gate.payload
        payload = given if is_object(given) else {}
        while True:
            try:
                gate.resolve(await _ask_for_gate(gate.reason, payload))
            except InvalidGateResolutionError as error:
                print_message(str(error))
            else:
                return None if gate.settlement is None else gate.settlement.value

    return open_gate


async def _ask_for_gate(reason: str, payload: JsonObject) -> JsonValue:
    """Ask for the value of a gate: a text, one of the options, the fields of a form, or a confirmation of a URL."""
    schema = payload.get("schema")
    if is_object(schema) and is_object(schema.get("properties")):
        stderr().line(f"{reason} (Ctrl-D declines)")
        return await _form(schema)
    if "url" in payload:
        stderr().line(f"{reason}\n  {payload['url']}")
        return (await _answer("Go on? [y/N] ")).strip().lower() in _YES
    question, options = payload.get("question") or reason, payload.get("options") or ()
    for option in options:
        stderr().line(f"  - {option}")
    while True:
        answer = (await _require_answer(f"{escape_controls(str(question))} ")).strip()
        if not options or answer in options:
            return answer


async def _form(schema: JsonObject) -> JsonObject:
    """Ask for each field of a flat form; an empty answer means the default, or omits the field."""
    values: JsonObject = {}
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


def _parse_field(name: str, text: str, field: JsonObject, schema: JsonObject) -> JsonValue:
    if "array" in get_types(field, schema):
        return [parse_scalar(name, part.strip(), field.get("items", {}), schema) for part in text.split(",")]
    return parse_scalar(name, text, field, schema)


def _label(name: str, field: JsonObject, *, is_required: bool) -> str:
    named, items = field.get("title") or name, field.get("items")
    options = field.get("enum") or (items.get("enum") if is_object(items) else None)
    words = [str(field["description"])] if field.get("description") else []
    words += [" | ".join(map(str, options))] if is_array(options) else []
    words += [f"default {field['default']}"] if "default" in field else [] if is_required else ["optional"]
    return escape_controls(to_line(f"{named} ({'; '.join(words)})" if words else str(named)))


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


def get_user() -> str:
    """Return the name of the user of this terminal."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have no name for its user
        return f"user {os.getuid()}"
