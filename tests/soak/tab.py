"""A tab of the page that shows live calls for an hour: its memory stays level."""

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.soak.results import Result

RATE = 200
WARM_UP_SECONDS = 10.0
LOOK_SECONDS = 30.0
"""A list that fills, and caches, may grow by this much."""
ALLOWED_BYTES = 4 << 20
"""How much more the heap may have in the end than after the warm-up, whatever the time."""
ALLOWED_NODES = 3_000


@contextmanager
def drive(folder: Path) -> Generator[Any]:
    """Run a server and a tab; yields a function that carries out one step of `benchmarks.inspector.driver`."""
    (folder / "state").mkdir()
    command = [sys.executable, "-m", "benchmarks.inspector.driver", str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def do(name: str, *arguments: object) -> Any:
        stdin.write(f"{json.dumps([name, *arguments])}\n")
        stdin.flush()
        return json.loads(stdout.readline())

    try:
        yield do
    finally:
        stdin.close()
        process.wait(60)
        stdout.close()


def run_tab(folder: Path, *, seconds: float, seed: int) -> Result:
    """Show live calls, and compare the heap, the elements and the listeners of the tab with those after the warm-up."""
    result = Result(name=f"the page, {RATE} calls a second", seed=seed)
    with drive(folder) as do:
        do("watch")
        do("live", WARM_UP_SECONDS, RATE)
        first = do("heap")
        for _ in range(max(1, round(seconds / LOOK_SECONDS))):
            do("live", min(LOOK_SECONDS, seconds), RATE)
            last = do("heap")
            result.counts["looks"] += 1
            result.counts["bytes"] = max(result.counts["bytes"], int(last["bytes"]))
            result.expect(last["bytes"] <= first["bytes"] + ALLOWED_BYTES, f"the heap grew from {first} to {last}")
            result.expect(last["nodes"] <= first["nodes"] + ALLOWED_NODES, f"elements grew from {first} to {last}")
            result.expect(last["listeners"] <= first["listeners"] + 100, f"listeners grew from {first} to {last}")
    return result
