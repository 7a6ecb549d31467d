"""A PostgreSQL server for the benchmarks of the journal, started on first use and ended with the run."""

import atexit
import shutil
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from tests.journal.postgres_server import running_server


@cache
def start_postgres() -> str:
    """Start a server that syncs to the disk, as a real one does, and return its address."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(running_server(fsync=True)).dsn()


def find_missing_postgres() -> str | None:
    """Return why there is no PostgreSQL to measure."""
    if shutil.which("initdb") is None and not any(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        return "there is no PostgreSQL; install the Debian package postgresql"
    return None
