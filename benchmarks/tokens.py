"""The token table: what a large result costs a model, passed on whole, truncated, and shown by a short preview."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from benchmarks.texts import build_text
from spindle import Budget, Call, CallOutcome, Executor, ToolContext, ToolRegistry, TurnContext, tool
from spindle.artifacts import Artifact, forge_all
from spindle.trust import render_outcome

TRIPS = 7
"""Requests to the model: the first has no result yet, each further one repeats all results so far."""

PREVIEW_CHARS = 8_000

READS: dict[str, Sequence[tuple[str, dict[str, Any]]]] = {
    "log": (
        ("artifact_grep", {"pattern": "ERROR", "limit": 20}),
        ("artifact_cat", {"start": 50, "end": 70}),
        ("artifact_tail", {"n": 5}),
    ),
    "JSON": (
        ("artifact_json_keys", {}),
        ("artifact_json_get", {"path": "$.orders[?@.total > 895].id"}),
        ("artifact_json_get", {"path": "$.orders[0]"}),
    ),
    "HTML": (
        ("artifact_grep", {"pattern": "<h2>", "limit": 20}),
        ("artifact_cat", {"start": 100, "end": 120}),
        ("artifact_head", {"n": 8}),
    ),
    "CSV": (
        ("artifact_head", {"n": 5}),
        ("artifact_grep", {"pattern": "Osaka,.*,8,", "limit": 20}),
        ("artifact_tail", {"n": 5}),
    ),
}
"""What a model asks the readers for, one query in each of the trips after the first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRow:
    """The tokens of one text under one budget, as `estimate_tokens` counts them."""

    kind: str
    budget: str
    whole: int
    first: int
    """The first answer, with its envelope."""
    entered: int
    """All results that entered the conversation."""
    billed: int
    """All results and the readers' definitions, counted again in each request that has them."""

    @property
    def saved(self) -> float:
        """How many times more the whole text would have been billed."""
        return self.whole * (TRIPS - 1) / self.billed


async def measure_text(kind: str, budget: Budget, label: str) -> TokenRow:
    """Return a text with a tool, read parts of it, and count what a model is sent."""
    text = build_text(kind)

    @tool
    async def fetch() -> str:
        """Fetch the text."""
        return text

    ctx = ToolContext(session_id="tokens")
    (outcome,) = await Executor(ToolRegistry([fetch]), budget=budget).execute_parallel([Call("c1", "fetch")], ctx)
    readers = forge_all(TurnContext(tool_calls=[outcome.to_record()]))
    executor = Executor(readers, budget=budget)
    shown = [await _count_outcome(outcome)]
    for place, (name, args) in enumerate(READS[kind]):
        (read,) = await executor.execute_parallel([Call(f"r{place}", name, {"call_id": "c1", **args})], ctx)
        if not read.ok:
            raise RuntimeError(f"{name} failed: {read.result}")
        shown.append(await _count_outcome(read))
    definitions = await _count(json.dumps(readers.to_definitions(), separators=(",", ":")))
    # The answer of trip n is part of every later request.
    billed = sum(tokens * (TRIPS - trip) for trip, tokens in enumerate(shown, start=1)) + definitions * (TRIPS - 1)
    return TokenRow(
        kind=kind, budget=label, whole=await _count(text), first=shown[0], entered=sum(shown), billed=billed
    )


async def _count_outcome(outcome: CallOutcome) -> int:
    return await _count(render_outcome(outcome))


async def _count(text: str) -> int:
    return await Artifact.from_text(text).estimate_tokens()


async def measure_tokens() -> list[TokenRow]:
    """Measure each text with the default budget and with a short preview."""
    budgets = {"default": Budget(), f"preview {PREVIEW_CHARS:,}": Budget(preview_chars=PREVIEW_CHARS)}
    return [await measure_text(kind, budget, label) for kind in READS for label, budget in budgets.items()]


def render_table() -> str:
    """Return the token table as plain text."""
    header = ("tokens of", "budget", "whole", "first answer", "entered", f"billed in {TRIPS} trips", "whole / billed")
    cells: list[tuple[str, ...]] = [header]
    for row in anyio.run(measure_tokens):
        counts = (f"{count:,}" for count in (row.whole, row.first, row.entered, row.billed))
        cells.append((row.kind, row.budget, *counts, f"{row.saved:.1f} x"))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) if place < 2 else cell.rjust(width) for place, (cell, width) in enumerate(pairs))
        for pairs in (zip(line, widths, strict=True) for line in cells)
    )
    return "\n".join(line.rstrip() for line in lines)


if __name__ == "__main__":
    print(render_table())
