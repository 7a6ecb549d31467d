"""Configurations of MCP clients: where they are, what they name, and how Spindle is put into one.

Start reading at `catalogue.py`, the table of clients.
"""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.cli.clients.catalogue import CLIENTS as CLIENTS
    from spindle.cli.clients.catalogue import KnownClient as KnownClient
    from spindle.cli.clients.catalogue import Location as Location
    from spindle.cli.clients.catalogue import Machine as Machine
    from spindle.cli.clients.discovery import FoundFile as FoundFile
    from spindle.cli.clients.discovery import FoundServer as FoundServer
    from spindle.cli.clients.discovery import find_files as find_files
    from spindle.cli.clients.entries import build_entry as build_entry
    from spindle.cli.clients.entries import normalize_entry as normalize_entry
    from spindle.cli.clients.jsonc import parse as parse
    from spindle.cli.clients.jsonc import put_member as put_member
    from spindle.cli.clients.jsonc import remove_member as remove_member
else:
    __getattr__, __dir__ = open_door(__name__)
