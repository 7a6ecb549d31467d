"""Asking the person at the terminal: for approval, and for the answers that tools wait for."""

import json
import sys
from collections.abc import Callable
from typing import Any, cast

from anyio import to_thread

from spindle.cli.output import plain, stderr
from spindle.cli.terminal_text import visible
from spindle.errors import GateNotSupportedError
from spindle.execution.approval import ApprovalRequest, Approve

_MAX_SHOWN_CHARS = 2_000


def can_ask() -> bool:
    """Whether somebody sits there to answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def approver(*, yes: bool, before: Callable[[], None]) -> Approve | None:
    """Who decides whether a tool that asks first may run: `--yes`, the person at the terminal, or nobody.

    `before` is called before anything is asked, to clear the line.
    """
    if yes:
        return _always
    if not can_ask():
        return None

    async def ask(request: ApprovalRequest) -> bool:
        out = stderr()
        before()
        args = json.dumps(request.args, indent=2, ensure_ascii=False, default=plain)
        out.line(f"{out.styled(request.tool.name, 'bold')} wants to run with")
        out.text(args if len(args) <= _MAX_SHOWN_CHARS else f"{args[:_MAX_SHOWN_CHARS]}\n… ({len(args)} characters)")
        return (await _answer("Run it? [y/N] ")).strip().lower() in {"y", "yes"}

    return ask


def gate_opener(before: Callable[[], None]) -> Callable[[Any], Any]:
    """How a tool's question reaches the person at the terminal."""

    async def open_gate(gate: Any) -> Any:
        if not can_ask():
            raise GateNotSupportedError("nobody sits at this terminal to answer")
        before()
        given: Any = gate.payload
        payload = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        question, options = payload.get("question") or gate.reason, payload.get("options") or ()
        for option in options:
            stderr().line(f"  - {visible(str(option))}")
        while True:
            answer = await _answer(f"{visible(str(question))} ")
            if not answer:  # the end of what can be read; asking again would ask for ever
                raise GateNotSupportedError("nobody answers at this terminal any more")
            if not options or answer.strip() in options:
                return answer.strip()

    return open_gate


async def _always(_: ApprovalRequest) -> bool:
    return True


async def _answer(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return await to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
