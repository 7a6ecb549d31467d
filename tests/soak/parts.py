"""The parts of the soak, in the two sizes in which they are run."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from uuid import uuid4

from tests.journal.postgres_fixtures import execute
from tests.journal.postgres_server import Server
from tests.soak.approvals import run_approvals
from tests.soak.kills import run_kills
from tests.soak.results import Result


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is done; a part with restarts does the second number."""

    approvals: tuple[int, int]
    kills: tuple[int, int]
    """Of each of the four parts without restarts, and of each of the two with them."""


FULL = Size(approvals=(1_000, 1_000), kills=(125, 60))
"""`make soak`."""
SMALL = Size(approvals=(100, 40), kills=(13, 6))
"""`make test-all`: about three minutes."""

Part = Callable[[Server, Path, Size, int], Awaitable[Result]]


def create_schema(server: Server) -> str:
    """Return the address of a new schema in the server's database."""
    schema = f"soak_{uuid4().hex}"
    # In a thread: the caller may have an event loop.
    thread = Thread(target=lambda: asyncio.run(execute(server.dsn(), f"CREATE SCHEMA {schema}")))
    thread.start()
    thread.join()
    return server.dsn(schema=schema)


async def ask_approvals(server: Server, folder: Path, size: Size, seed: int, *, restart: bool = False) -> Result:
    name = "approvals at 3 replicas" + (", PostgreSQL restarted" if restart else "")
    count = size.approvals[restart]
    return await run_approvals(name, server, create_schema(server), folder, count=count, seed=seed, restart=restart)


async def kill_on_sqlite(server: Server, folder: Path, size: Size, seed: int, *, kind: str) -> Result:
    return await run_kills(
        f"{kind}, SQLite", kind, folder, lambda own: str(own / "journal.db"), kills=size.kills[0], seed=seed
    )


async def kill_on_postgres(
    server: Server, folder: Path, size: Size, seed: int, *, kind: str, restart: bool = False
) -> Result:
    return await run_kills(
        f"{kind}, PostgreSQL{' restarted' if restart else ''}",
        kind,
        folder,
        lambda _: create_schema(server),
        kills=size.kills[restart],
        seed=seed,
        server=server if restart else None,
    )


PARTS: dict[str, Part] = {
    "batches": partial(kill_on_sqlite, kind="batches"),
    "turns": partial(kill_on_sqlite, kind="turns"),
    "approvals": ask_approvals,
    "batches-postgres": partial(kill_on_postgres, kind="batches"),
    "turns-postgres": partial(kill_on_postgres, kind="turns"),
    "batches-restart": partial(kill_on_postgres, kind="batches", restart=True),
    "turns-restart": partial(kill_on_postgres, kind="turns", restart=True),
    "approvals-restart": partial(ask_approvals, restart=True),
}
"""By name, those that restart PostgreSQL last."""
