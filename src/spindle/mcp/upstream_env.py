"""What a server's process is given: a few plain variables, what its spec says, and a home of its own."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from spindle.mcp.spec import ServerSpec

INHERITED = ("PATH", "USER", "LANG", "LC_ALL", "TERM", "SHELL")
_SENSITIVE = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_FOLDERS = {
    "HOME": "home",
    "TMPDIR": "tmp",
    "XDG_CACHE_HOME": "home/.cache",
    "XDG_CONFIG_HOME": "home/.config",
    "XDG_DATA_HOME": "home/.local/share",
    "XDG_STATE_HOME": "home/.local/state",
    "XDG_RUNTIME_DIR": "run",
}


class Scratch:
    """A folder of one server's own, kept while it is restarted and removed in the end."""

    def __init__(self) -> None:
        self._path: Path | None = None

    def variables(self) -> dict[str, str]:
        """Make the folders, and give the variables that point there."""
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="spindle-mcp-"))
        made: dict[str, str] = {}
        for name, place in _FOLDERS.items():
            folder = self._path / place
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            made[name] = str(folder)
        return made

    def remove(self) -> None:
        """Remove the folder; what cannot be removed is left to the system."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None


def environment(
    spec: ServerSpec, own: Mapping[str, str], scratch: Mapping[str, str], secrets: Mapping[str, str]
) -> dict[str, str]:
    """Put a server's environment together; `own` is that of this process, and nothing else of it gets through.

    A name that looks secret passes only when it is written out in `env_passthrough`, `env` or `env_secrets`.
    """
    passed = {name: own[name] for name in INHERITED if name in own}
    for wanted in spec.env_passthrough:
        passed |= {name: own[name] for name in own if name == wanted or _is_covered(name, wanted)}
    # A shell function smuggled in as a variable is run by some shells.
    passed = {name: value for name, value in passed.items() if not value.startswith("()")}
    given = {**passed, **spec.env, **secrets}
    if "HOME" in given:  # then what programs keep below it is found there too, such as a cache
        scratch = {name: place for name, place in scratch.items() if not name.endswith("_HOME")}
    return {**scratch, **given}


def _is_covered(name: str, pattern: str) -> bool:
    is_sensitive = any(word in name.upper() for word in _SENSITIVE)
    return not is_sensitive and fnmatchcase(name, pattern)


def program(command: str, env: Mapping[str, str], cwd: str | None) -> str | None:
    """Find the program a command means, as the server's own PATH has it."""
    if os.path.dirname(command):  # noqa: PTH120  a bare name is to be looked up, and a Path does not tell it from ./name
        base = Path(cwd) if cwd else Path()
        return command if (base / command).exists() else None
    return shutil.which(command, path=env.get("PATH", os.defpath))
