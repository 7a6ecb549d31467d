"""Where the lock file of a configuration is, and what the configuration says about locked servers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from spindle.json_types import JsonObject, JsonValue, is_list_or_tuple
from spindle.mcp.lock import describe_origin

LOCK_FILE = "spindle.lock"
"""The name of the file beside spindle.toml."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LockSettings:
    """The lock of a configuration's servers."""

    path: Path | None = None
    is_named: bool = False
    """Whether `mcp.lock` names the file, which must then exist."""
    unlocked: Literal["offer", "quarantine"] = "offer"
    origins: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """The command or URL of each server as its file has it, so without the values of variables."""


def to_origin(entry: Mapping[str, JsonValue]) -> JsonObject:
    """Return the origin of a server entry before its variables are replaced; values of other types are left out."""
    command, args, url = entry.get("command"), entry.get("args"), entry.get("url")
    words = [each for each in args if isinstance(each, str)] if is_list_or_tuple(args) else []
    if isinstance(url, str) and not isinstance(command, str):
        return describe_origin(url=url)
    return describe_origin(command=command if isinstance(command, str) else "", args=words)
