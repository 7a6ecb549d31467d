"""Facts about registered tools for people: where a tool comes from, what it can reach, and whether it is locked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from spindle.bridges.mcp import OUTPUT_SCHEMA, TITLE
from spindle.capabilities.declare import Capabilities
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.text import shorten, to_encodable
from spindle.tools.declaration import Tool
from spindle.tools.entry import Entry

if TYPE_CHECKING:
    from spindle.mcp.client.lifecycle import ServerStatus
    from spindle.mcp.lock.quarantine import LockPolicy

OriginKind: TypeAlias = Literal["kit", "module", "server", "api"]
LockState: TypeAlias = Literal["local", "unlocked", "locked", "changed", "quarantined"]
"""A tool of this machine; of a server that is not locked; accepted; withheld because it changed, or because it is new.
"""

MAX_TITLE_CHARS: Final = 200
MAX_DESCRIPTION_CHARS: Final = 20_000
MAX_SCHEMA_CHARS: Final = 256_000
MAX_SCHEMA_DEPTH: Final = 100
_MAX_NAMED: Final = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a tool comes from."""

    kind: OriginKind
    name: str
    """The server, the API, the toolset of the kit, or the module."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LockFacts:
    """Whether the definition of a tool was accepted."""

    state: LockState
    reason: str | None = None
    """Why it is withheld."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WithheldTool:
    """A tool of an upstream server that is in quarantine."""

    server: str
    name: str
    lock: LockFacts


def find_origin(entry: Entry) -> Origin:
    """Return where a tool comes from."""
    if entry.mcp_server is not None:
        return Origin(kind="server", name=entry.mcp_server)
    if entry.tool.meta.has("openapi.server"):
        return Origin(kind="api", name=str(entry.tool.meta.get("openapi.server")))
    if entry.tool.origin.startswith("spindle.kit."):
        return Origin(kind="kit", name=entry.tool.toolset or "")
    return Origin(kind="module", name=to_encodable(entry.tool.origin.partition(":")[0]))


def find_title(tool: Tool) -> str | None:
    """Return the title of a tool, if it has one."""
    title = tool.meta.get(TITLE)
    return shorten(to_encodable(title), MAX_TITLE_CHARS) if isinstance(title, str) and title else None


def find_output_schema(tool: Tool) -> JsonObject | None:
    """Return the schema of structured results, if the tool declares one that is small enough to show."""
    schema = tool.meta.get(OUTPUT_SCHEMA)
    return schema if is_object(schema) and is_showable(schema) else None


def find_lock(entry: Entry, policy: "LockPolicy | None") -> LockFacts:
    """Return whether the definition of a registered tool was accepted; what is withheld is not registered."""
    if entry.mcp_server is None:
        return LockFacts(state="local")
    is_locked = policy is not None and policy.find(entry.mcp_server) is not None
    return LockFacts(state="locked" if is_locked else "unlocked")


def list_withheld(statuses: "Iterable[ServerStatus]", policy: "LockPolicy | None") -> list[WithheldTool]:
    """Return the tools in quarantine; for each server the first ones."""
    found: list[WithheldTool] = []
    for status in statuses:
        locked = None if policy is None else policy.find(status.name)
        known = frozenset[str]() if locked is None else frozenset(locked.of_kind("tool"))
        for each in status.withheld:
            if each.kind == "tool":
                state: LockState = "changed" if each.name in known else "quarantined"
                lock = LockFacts(state=state, reason=each.reason)
                found.append(WithheldTool(server=status.name, name=each.name, lock=lock))
    return found


def describe_capabilities(needs: Capabilities) -> list[str]:
    """Return in sentences what a tool can reach."""
    said: list[str] = []
    if needs.network is not None:
        hosts = "any public host" if "*" in needs.network else _join(needs.network) or "no host"
        said.append(f"Sends requests to {hosts}.")
    if needs.files is not None:
        said += [f"Reads files in {_name_folders(needs.files.read)}."] if needs.files.read else []
        said += [f"Writes files in {_name_folders(needs.files.write)}."] if needs.files.write else []
    if needs.process is not None:
        said.append(f"Runs commands: {'any' if '*' in needs.process else _join(needs.process) or 'none'}.")
    if needs.secrets is not None:
        said.append(f"Is given the secrets {_join(needs.secrets)}." if needs.secrets else "Is given no secret.")
    if needs.storage is not None:
        said.append(f"Keeps values in a store of its {needs.storage}.")
    if needs.attachments is not None:
        kinds = "all media" if "*" in needs.attachments else _join(needs.attachments)
        said.append(f"Reads attachments of the turn: {kinds}.")
    return said


def is_showable(value: JsonValue, *, max_chars: int = MAX_SCHEMA_CHARS, max_depth: int = MAX_SCHEMA_DEPTH) -> bool:
    """Return whether a JSON value is small and flat enough for an answer of the API."""
    level: list[JsonValue] = [value]
    chars, depth = 0, 0
    while level:
        inner: list[JsonValue] = []
        depth += 1
        for each in level:
            chars += len(each) if isinstance(each, str) else 8
            if is_object(each):
                chars += sum(len(name) + 4 for name in each)
                inner.extend(each.values())
            elif is_array(each):
                inner.extend(each)
            if chars > max_chars:
                return False
        if depth > max_depth:
            return False
        level = inner
    return True


def _name_folders(folders: Sequence[str]) -> str:
    return "the workspace" if tuple(folders) == (".",) else _join(folders)


def _join(names: Sequence[str]) -> str:
    shown = ", ".join(shorten(to_encodable(name), MAX_TITLE_CHARS) for name in names[:_MAX_NAMED])
    return f"{shown} and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else shown
