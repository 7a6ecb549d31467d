"""The demonstration as plain data, for programs."""

from typing import Any

from spindle.calls import Ok
from spindle.cli.demo_run import Answer, Demonstration


def facts_of(demo: Demonstration) -> dict[str, Any]:
    """Give what was asked, what ran and what the model saw, call by call."""
    return {
        "calls": [_answer(answer) for answer in demo.answers],
        "name_clash": None if demo.clash is None else str(demo.clash),
        "read_back": [_answer(answer) for answer in demo.read_back],
        "entered": list(demo.entered),
    }


def _answer(answer: Answer) -> dict[str, Any]:
    call, result = answer.asked.call, answer.outcome.result
    return {
        "title": answer.asked.title,
        "tool_call_id": call.tool_call_id,
        "tool": call.name,
        "args": call.args.decode(errors="replace") if isinstance(call.args, bytes) else call.args,
        "ran": answer.ran,
        "ok": answer.outcome.ok,
        "code": None if isinstance(result, Ok) else result.code,
        "shown": result.value if isinstance(result, Ok) else result.error,
        "duration_ms": round(answer.outcome.duration_ms, 3),
    }
