"""The tool `ask_user`: asks the user a question through a gate and waits for the answer."""

from typing import Annotated

from pydantic import Field

from spindle.calls import Err
from spindle.errors import GateAbortedError, GateNotSupportedError, GateTimeoutError
from spindle.json_types import JsonObject
from spindle.tools.context import ToolContext
from spindle.tools.declaration import tool
from spindle.trust.flow.roles import Content
from spindle.turns.gates import Gate

ANSWER_SECONDS = 3_600
"""How long a question stays open."""
_MARGIN_SECONDS = 30
"""The gate must time out before the call does, so that the model learns that the user did not answer."""

Option = Annotated[str, Field(min_length=1, max_length=500)]


# Trusted: the answer comes from the user, like a message.
@tool(toolset="people", trusted=True, timeout_seconds=ANSWER_SECONDS + _MARGIN_SECONDS, max_result_chars=20_000)
async def ask_user(
    question: Annotated[str, Field(min_length=1, max_length=4_000), Content()],
    options: Annotated[list[Option], Field(min_length=1, max_length=20), Content()] | None = None,
    *,
    ctx: ToolContext,
) -> str | Err:
    """Ask the user a question and wait for the answer. Use it when only the user can decide or know something.

    Args:
        question: One clear question, with everything the user needs to answer it.
        options: The answers to choose from, such as ["yes", "no"]; leave it out to let the user write freely.
    """
    schema: JsonObject = {"type": "string", "enum": options} if options else {"type": "string"}
    payload = {"question": question, "options": options}
    gate = Gate("ask_user", payload, schema=schema, timeout_seconds=ANSWER_SECONDS)
    try:
        return await ctx.wait_for(gate)
    except GateNotSupportedError as error:
        return Err(
            "not_available", "The user cannot be asked here. Decide yourself, and say what you assumed.", cause=error
        )
    except GateTimeoutError as error:
        return Err(
            "timed_out",
            "The user did not answer in time. Continue without, or end your turn with the question.",
            cause=error,
        )
    except GateAbortedError as error:
        return Err("cancelled", "The question was withdrawn before the user answered.", cause=error)
    except Exception as error:
        if gate.settlement is None or gate.settlement.error is not error:
            raise
        return Err("denied", "The user declined to answer. Do not ask this again.", cause=error)
