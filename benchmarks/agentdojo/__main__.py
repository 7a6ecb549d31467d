"""`python -m benchmarks.agentdojo`: replay AgentDojo's tasks and attacks under three policies, and print the table.

AgentDojo has an environment of its own, made here on first use from `requirements.txt`. Where it cannot be installed,
a line says so.
"""

import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter

from benchmarks.agentdojo.counts import Counts
from benchmarks.agentdojo.table import show
from benchmarks.peers.__main__ import CACHE, ROOT, NotMeasured, python_of

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
REPLAY_SECONDS = 1_800


def measure(cache: Path = CACHE) -> list[Counts]:
    """Replay everything in AgentDojo's environment.

    Raises:
        NotMeasured: The environment cannot be made, or the replay failed.
    """
    python = python_of("agentdojo", cache.resolve(), REQUIREMENTS)
    settings = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"}
    try:
        done = subprocess.run(
            [str(python), "-m", "benchmarks.agentdojo.replay"],
            cwd=ROOT,
            env=settings,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=REPLAY_SECONDS,
        )
    except subprocess.CalledProcessError as failed:
        raise NotMeasured(f"the replay ended with code {failed.returncode}") from failed
    except subprocess.TimeoutExpired as failed:
        raise NotMeasured(f"the replay was not done within {REPLAY_SECONDS} s") from failed
    return TypeAdapter(list[Counts]).validate_json(done.stdout)


def print_table(*, with_notes: bool = False) -> bool:
    """Print the table, or a line with the reason why there is none; return whether it was printed."""
    try:
        show(measure(), with_notes=with_notes)
    except NotMeasured as reason:
        print(f"NOT MEASURED: AgentDojo; {reason}", flush=True)
        return False
    return True


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; fails if nothing could be measured."""
    parser = ArgumentParser(prog="python -m benchmarks.agentdojo", description="AgentDojo under three policies.")
    parser.add_argument("--notes", action="store_true", help="list needless questions and those that were not asked")
    options = parser.parse_args(argv)
    return 0 if print_table(with_notes=options.notes) else 1


if __name__ == "__main__":
    sys.exit(main())
