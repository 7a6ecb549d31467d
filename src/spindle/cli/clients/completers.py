"""The values that a shell completes: clients, and the servers in their files."""

import re
from typing import TYPE_CHECKING

from spindle.cli.clients.catalogue import CLIENTS, Machine
from spindle.cli.clients.discovery import find_files

if TYPE_CHECKING:  # cyclopts loads it for completion only
    from cyclopts.completion import CompletionContext

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")


def client_names(_: "CompletionContext") -> dict[str, str]:
    """Return the MCP clients that Spindle knows, with their titles."""
    return {name: client.title for name, client in CLIENTS.items()}


def client_servers(_: "CompletionContext") -> list[str]:
    """Return the servers of installed clients, as `CLIENT:SERVER`."""
    found = [(file.client.name, each) for file in find_files(Machine.here()) for each in file.servers]
    return [f"{name}:{each.name}" for name, each in found if _PLAIN_NAME.fullmatch(each.name) and not each.is_spindle]
