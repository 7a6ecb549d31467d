"""Fills a SQLite journal with realistic calls: `python -m benchmarks.inspector.fill PATH COUNT`."""

import random
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio

from spindle import Journal
from spindle.journal import FinishedCall, Intent, idempotency_key

RARE_TOOL = "restore_backup"
"""A tool that one call of 5,000 is of."""
RARE_TEXT = "parcel-7e1f"
"""A text in the arguments of one call of 10,000."""
TOOLS = (
    *("read_file", "read_file", "search_files", "list_directory", "write_file", "calculate"),
    *("mcp__notes__find", "mcp__notes__add", "mcp__web__fetch_page", "mcp__shop__list_orders", "send_parcels"),
)
CODES = ("execution_failed", "timed_out", "input_invalid", "not_available", "denied")
BATCH_ROWS = 1_000
CALLS_IN_BATCH = 4

Noted = tuple[Intent, FinishedCall]


def build_calls(count: int, *, seed: int = 20, ending_at: datetime | None = None) -> Iterator[Noted]:
    """Yield calls in the order in which they began, of many sessions, a twelfth of them failed."""
    chance = random.Random(seed)
    end = ending_at or datetime.now(UTC)
    step = timedelta(days=7) / max(count, 1)
    for number in range(count):
        started = end - step * (count - number)
        yield _build_call(chance, number, started, number // CALLS_IN_BATCH)


def _build_call(chance: random.Random, number: int, started: datetime, batch: int) -> Noted:
    tool = RARE_TOOL if number % 5_000 == 17 else chance.choice(TOOLS)
    name = RARE_TEXT if number % 10_000 == 4_711 else f"{chance.randrange(1 << 32):08x}"
    args: dict[str, Any] = {
        "path": f"reports/2026/{name}.csv",
        "limit": chance.randrange(500),
        "query": "overdue orders",
    }
    session, turn = f"session-{batch % 977}", f"turn-{batch}"
    checksum = f"{chance.randrange(1 << 128):032x}{number:032x}"
    key = idempotency_key(session, turn, f"call_{number}", checksum)
    took_us = int(chance.lognormvariate(10.5, 1.4))
    timing = (
        f"batch=fill-{batch:x} calls={CALLS_IN_BATCH} admitted=80 intent=120..2300 written={took_us + 5_000} "
        f"position={number % CALLS_IN_BATCH} share=20000 began=2400 ended={took_us + 2_400} deadline=120002400"
    )
    intent = Intent(
        tool_call_id=f"call_{number}",
        tool=tool,
        checksum=checksum,
        idempotency_key=key,
        args=args,
        started_at=started,
        session_id=session,
        turn_id=turn,
        fingerprint="f" * 64,
    )
    ended = started + timedelta(microseconds=took_us)
    if chance.random() < 1 / 12:
        code, error = chance.choice(CODES), f"The tool {tool!r} failed: order {name} is unknown."
        failed = {"field": None, "retryable": False, "by": "tool", "timing": timing}
        return intent, FinishedCall(
            idempotency_key=key, ended_at=ended, code=code, error=error, result=failed, result_chars=len(error)
        )
    text = f"{name} " * chance.randrange(5, 120)
    return intent, FinishedCall(
        idempotency_key=key, ended_at=ended, result={"value": text, "timing": timing}, result_chars=len(text)
    )


async def fill(path: Path, count: int) -> None:
    """Write calls to a journal, a thousand in one transaction."""
    calls = build_calls(count)
    async with Journal.sqlite(path) as journal:
        while some := list(islice(calls, BATCH_ROWS)):
            await journal.begin([intent for intent, _ in some])
            await journal.finish([finished for _, finished in some])


def main() -> int:
    """Fill the journal, and tell how long it took."""
    parser = ArgumentParser(prog="python -m benchmarks.inspector.fill", description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    began = perf_counter()
    anyio.run(fill, options.path, options.count)
    sys.stdout.write(f"{options.count:,} calls in {perf_counter() - began:.1f} s: {options.path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
