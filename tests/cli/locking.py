"""A configuration with servers that change on a day of the test's choosing, for the tests of locks."""

import json
import sys
from pathlib import Path

from tests.cli.conftest import Place

PROGRAM = Path(__file__).parent.parent / "mcp" / "servers" / "poisoned.py"


def configure(place: Place, more: str = "", **kinds: str) -> Path:
    """Write a configuration with a server for each kind of poison; return the file that begins the day."""
    day = place.work / "day"
    tables = [
        f"[mcp.servers.{name}]\ncommand = {json.dumps(sys.executable)}\n"
        f"args = {json.dumps(['-I', '-S', str(PROGRAM), kind, '--day', str(day)])}\n"
        for name, kind in kinds.items()
    ]
    place.configure("\n".join([*tables, more]))
    return day
