"""Tools of the engine suite, which workers load by name; what they do can be counted in a file of their folder."""

import os
from pathlib import Path
from typing import Final

import anyio

from spindle.tools.declaration import Tool, tool

EFFECTS: Final = "effects.txt"
RELEASE: Final = "release"
"""The file that ends every held call of a folder."""
VARIANT: Final = "SPINDLE_ENGINE_SUITE_VARIANT"
"""With this variable, a worker has another version of the tools."""

_PAUSE_SECONDS: Final = 0.02
_WORK_SECONDS: Final = 0.5


def note_effect(folder: str, kind: str, name: str) -> None:
    """Append one line to the effects of a folder; one write, so that lines of several processes do not mix."""
    line = f"{kind} {name} {os.getpid()}\n".encode()
    handle = os.open(Path(folder) / EFFECTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


async def _hold(folder: str, name: str) -> str:
    note_effect(folder, "start", name)
    try:
        while not (Path(folder) / RELEASE).exists():  # noqa: ASYNC110 - another process creates it
            await anyio.sleep(_PAUSE_SECONDS)
    except anyio.get_cancelled_exc_class():
        note_effect(folder, "cancelled", name)
        raise
    return f"held {name}"


def build_tools() -> list[Tool]:
    """Build the tools of the suite."""

    @tool
    async def note(folder: str, name: str) -> str:
        """Note an effect."""
        note_effect(folder, "start", name)
        return f"noted {name}"

    @tool
    async def hold(folder: str, name: str) -> str:
        """Note an effect and wait; not to be repeated."""
        return await _hold(folder, name)

    @tool(idempotent=True)
    async def hold_again(folder: str, name: str) -> str:
        """Note an effect and wait; may be repeated."""
        return await _hold(folder, name)

    @tool
    async def work(folder: str, name: str) -> str:
        """Note an effect and take a moment; not to be repeated."""
        note_effect(folder, "start", name)
        await anyio.sleep(_WORK_SECONDS)
        return f"worked {name}"

    @tool(idempotent=True)
    async def work_again(folder: str, name: str) -> str:
        """Note an effect and take a moment; may be repeated."""
        note_effect(folder, "start", name)
        await anyio.sleep(_WORK_SECONDS)
        return f"worked {name}"

    @tool(requires_approval=True)
    async def pay(folder: str, name: str) -> str:
        """Note an effect after approval."""
        note_effect(folder, "start", name)
        return f"paid {name}"

    return [
        note,
        hold,
        hold_again,
        work,
        work_again,
        pay,
        _build_greet("other" if os.environ.get(VARIANT) else "first"),
    ]


def _build_greet(version: str) -> Tool:
    @tool(description=f"Note an effect: the {version} version.")
    async def greet(folder: str, name: str) -> str:
        note_effect(folder, "start", name)
        return f"hello {name}"

    return greet
