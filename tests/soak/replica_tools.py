"""The tools of the replicas: two that need approval and note their effects, and one that answers approvals there.

`spindle serve` loads them. `SOAK_JOURNAL` is the address of the journal, `SOAK_EFFECTS` the file to which each effect
is appended as one line: tool, id of the call, idempotency key, number, amount and process.
"""

import json
import os

import anyio

from spindle import Executor, Journal, Tool, ToolContext, ToolRegistry, tool
from tests.execution.signing import sign_ticket

BODY_SECONDS = 0.03
"""How long a payment takes after its effect: long enough for a kill to find it there now and then."""


async def have_effect(name: str, number: int, amount: int, ctx: ToolContext) -> str:
    line = f"{name} {ctx.tool_call_id} {ctx.idempotency_key} {number} {amount} {os.getpid()}\n"
    handle = os.open(os.environ["SOAK_EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, line.encode())  # one write: lines of several processes do not mix
    finally:
        os.close(handle)
    await anyio.sleep(BODY_SECONDS)
    return f"{name} {number} {amount}"


@tool(requires_approval=True)
async def pay(number: int, amount: int, *, ctx: ToolContext) -> str:
    """Pay an amount; not to be repeated."""
    return await have_effect("pay", number, amount, ctx)


@tool(requires_approval=True, idempotent=True)
async def transfer(number: int, amount: int, *, ctx: ToolContext) -> str:
    """Transfer an amount under the idempotency key of the call, so that the bank ignores a repetition."""
    return await have_effect("transfer", number, amount, ctx)


PAYMENTS = [pay, transfer]


async def answer_approval(
    journal: Journal, approval_id: str, *, approved: bool, number: int, amount: int | None, by: str
) -> dict[str, str | None]:
    """Answer an approval with an executor of this process; an amount replaces the one that was asked for."""
    key = os.environ["SPINDLE_STATE_KEY"]
    ticket = await sign_ticket(journal, key, approval_id)
    if ticket is None:
        return {"code": "lost", "text": "", "reason": None}
    executor = Executor(ToolRegistry(PAYMENTS), journal=journal, state_key=key)
    args = None if amount is None or not approved else {"number": number, "amount": amount}
    result = (await executor.resume(ticket, approved=approved, args=args, by=by)).result
    if result.ok is True:
        return {"code": "ok", "text": result.value, "reason": None}
    return {"code": result.code, "text": result.error, "reason": result.reason}


def build_tools() -> list[Tool]:
    """The tools of one replica; all its journals share one connection."""
    journal = Journal.postgres(os.environ["SOAK_JOURNAL"])

    @tool
    async def answer(approval_id: str, approved: bool, number: int, by: str, amount: int | None = None) -> str:
        """Answer an approval in this replica."""
        said = await answer_approval(journal, approval_id, approved=approved, number=number, amount=amount, by=by)
        return json.dumps(said)

    return [*PAYMENTS, answer]
