"""Tools for the tests of stopping: a call that reports its start and ends on request."""

import os
from pathlib import Path

import anyio

from spindle import tool


@tool
async def hold(folder: str) -> str:
    """Wait until the folder has a file `go`."""
    place = Path(folder)
    (place / "began").touch()
    try:
        while not (place / "go").exists():  # noqa: ASYNC110 - another process creates it
            await anyio.sleep(0.01)
    except anyio.get_cancelled_exc_class():
        (place / "cancelled").touch()
        raise
    return "held to the end"


@tool
def whoami() -> str:
    """Give the process this runs in."""
    return str(os.getpid())


TOOLS = [hold, whoami]
