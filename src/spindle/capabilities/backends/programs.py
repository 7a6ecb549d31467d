"""Where a command's program lies."""

import os
from pathlib import Path

from spindle.errors import ProgramNotExecutableError, ProgramNotFoundError


class Programs:
    """Finds each program once, on a search path that is not the host's."""

    def __init__(self, search_path: str) -> None:
        # A relative folder on the path would make the answer depend on where we stand.
        self._folders = [folder for folder in search_path.split(os.pathsep) if folder.startswith("/")]
        self._found: dict[str, str] = {}

    def find(self, command: str) -> str:
        """Give the absolute path of a command's program.

        Raises:
            ProgramNotFoundError: There is none.
            ProgramNotExecutableError: There is one, which cannot be run.
        """
        if command not in self._found:
            self._found[command] = self._search(command)
        return self._found[command]

    def _search(self, command: str) -> str:
        places = [Path(command)] if "/" in command else [Path(folder, command) for folder in self._folders]
        unusable: Path | None = None
        for place in places:
            if place.is_file() and os.access(place, os.X_OK):
                return str(place)
            if place.exists():
                unusable = unusable or place
        if unusable is not None:
            raise ProgramNotExecutableError(f"{command}: {unusable} is no program that may be run", command=command)
        looked = "there" if "/" in command else ":".join(self._folders)
        raise ProgramNotFoundError(f"{command}: no such program ({looked}); is it installed?", command=command)
