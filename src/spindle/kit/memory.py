"""The memory tools (remember, recall, forget), on the storage capability; one set of notes for each session."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

from spindle.calls import Err
from spindle.capabilities.declare import Capabilities
from spindle.json_types import JsonObject
from spindle.tools.context import ToolContext
from spindle.tools.declaration import tool
from spindle.trust.flow.roles import Content, Ref

MAX_CONTENT_CHARS = 20_000

_PREFIX = "memory/"
_CAPABILITIES = Capabilities(storage="session")
_MAX_RECALLED = 100

Name = Annotated[str, Field(min_length=1, max_length=100)]


def _resources(_args: object) -> Iterable[str]:
    return ["memory"]


@tool(
    toolset="memory",
    capabilities=_CAPABILITIES,
    resources=_resources,
    output="first-party",
    idempotent=True,
    timeout_seconds=30,
)
async def memory_remember(
    name: Annotated[Name, Content()],
    content: Annotated[str, Field(min_length=1, max_length=MAX_CONTENT_CHARS), Content()],
    *,
    ctx: ToolContext,
) -> str:
    """Remember something for later, under a short name. An old note of the same name is replaced.

    Args:
        name: The name of the note, such as "favourite colour".
        content: What to remember.
    """
    note = {"name": name, "content": content, "remembered_at": datetime.now(UTC).isoformat(timespec="seconds")}
    before = await ctx.storage.get(_key(name))
    await ctx.storage.set(_key(name), note)
    return f"Remembered {name!r}{'' if before is None else '; the earlier note was replaced'}."


@tool(
    toolset="memory",
    capabilities=_CAPABILITIES,
    resources=_resources,
    produces={"note": "*.name"},
    read_only=True,
    timeout_seconds=30,
    max_result_chars=40_000,
)
async def memory_recall(
    query: Annotated[str, Field(max_length=500)] = "",
    limit: Annotated[int, Field(ge=1, le=_MAX_RECALLED)] = 20,
    *,
    ctx: ToolContext,
) -> list[JsonObject]:
    """Recall what was remembered: the notes in which every word of the query occurs, newest first.

    Args:
        query: Words to look for in names and contents, such as "colour"; empty for every note.
        limit: The maximum number of notes.
    """
    words = query.casefold().split()
    notes = [await ctx.storage.get(key) for key in await ctx.storage.keys(_PREFIX)]
    found = [note for note in notes if note is not None and all(word in _get_search_text(note) for word in words)]
    found.sort(key=lambda note: str(note["remembered_at"]), reverse=True)
    return found[:limit]


@tool(
    toolset="memory",
    capabilities=_CAPABILITIES,
    resources=_resources,
    output="first-party",
    destructive=True,
    idempotent=True,
    timeout_seconds=30,
)
async def memory_forget(name: Annotated[Name, Ref("note")], *, ctx: ToolContext) -> str | Err:
    """Delete one note permanently; the others are kept.

    Args:
        name: The name of the note, exactly as memory_recall shows it.
    """
    if await ctx.storage.get(_key(name)) is None:
        return Err("input_invalid", f"There is no note named {name!r}; memory_recall lists them.", field="name")
    await ctx.storage.delete(_key(name))
    return f"Forgot {name!r}."


def _key(name: str) -> str:
    return f"{_PREFIX}{' '.join(name.split()).casefold()}"


def _get_search_text(note: JsonObject) -> str:
    return f"{note['name']}\n{note['content']}".casefold()
