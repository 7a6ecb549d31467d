"""`make soak`: kill replicas, processes and PostgreSQL for about half an hour, and count what is lost or repeated.

python -m tests.soak [PART ...] [--small] [--seed N] [--minutes N] [--tab-minutes N]

Then a tab of the page shows live calls for an hour, and its memory must stay level.
"""

import random
import signal
import sys
import tempfile
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import anyio
import pytest

from tests.inspector.browsing import CHROMIUM
from tests.journal.postgres_server import Server, running_server
from tests.soak.parts import FULL, PARTS, SMALL, Size
from tests.soak.results import Result, render
from tests.soak.tab import run_tab

TAB = "page"
"""The part that watches a tab of the page instead of killing something."""


def stop(_signal: int, _frame: FrameType | None) -> None:
    """End the run, so that everything it started is ended too."""
    raise TimeoutError("the soak took longer than --minutes")


def write(text: str) -> None:
    """Write lines at once, also to a file."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def run_part(server: Server, name: str, size: Size, seed: int) -> Result:
    """Run one part in a folder of its own; a part that fails is one row of the table."""
    with tempfile.TemporaryDirectory(prefix="spindle-soak-") as folder:
        try:
            return await PARTS[name](server, Path(folder), size, seed)
        except Exception as error:  # noqa: BLE001 - the other parts are still worth running
            return Result(name=name, seed=seed, broken=[f"FAILED: {error!r}"])


def watch_tab(minutes: float, seed: int) -> Result:
    """Watch the memory of a tab; without a browser, say so."""
    if CHROMIUM is None:
        write("SKIPPED: the page was not watched: it needs chromium, which `.ci/servers` installs on Debian")
        return Result(name=TAB, seed=seed)
    write(f"{datetime.now(UTC):%H:%M:%S} {TAB}")
    with tempfile.TemporaryDirectory(prefix="spindle-soak-") as folder:
        try:
            result = run_tab(Path(folder), seconds=minutes * 60, seed=seed)
        except Exception as error:  # noqa: BLE001 - as for the other parts
            return Result(name=TAB, seed=seed, broken=[f"FAILED: {error!r}"])
    write(f"  {dict(result.counts)}, {len(result.broken)} broken")
    return result


def main() -> int:
    parser = ArgumentParser(prog="python -m tests.soak", description="Kill everything, and count what is lost.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join([*PARTS, TAB])}; by default all")
    parser.add_argument("--small", action="store_true", help="as much as `make test-all` does")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000), help="repeat a run")
    parser.add_argument("--minutes", type=int, default=180, help="stop after this time (default: 180)")
    parser.add_argument("--tab-minutes", type=float, default=60, help="how long the page is watched (default: 60)")
    options = parser.parse_args()
    unknown = [name for name in options.parts if name not in {*PARTS, TAB}]
    if unknown:
        parser.error(f"no part has the name {unknown[0]!r}")
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(options.minutes * 60)
    write(f"seed {options.seed}")
    results: list[Result] = []
    try:
        names = options.parts or [*PARTS, TAB]
        with running_server() as server:
            for name in [each for each in names if each != TAB]:
                write(f"{datetime.now(UTC):%H:%M:%S} {name}")
                size = SMALL if options.small else FULL
                results.append(anyio.run(run_part, server, name, size, options.seed))
                write(f"  {dict(results[-1].counts)}, {len(results[-1].broken)} broken")
        if TAB in names:
            results.append(watch_tab(0.25 if options.small else options.tab_minutes, options.seed))
    except pytest.skip.Exception as reason:
        write(f"cannot run: {reason}")
        return 1
    except TimeoutError as error:
        results.append(Result(name="the rest", seed=options.seed, broken=[str(error)]))
    write(render(results))
    for result in results:
        for promise in result.broken:
            write(f"BROKEN, seed {result.seed}, {result.name}: {promise}")
    return 1 if any(result.broken for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
