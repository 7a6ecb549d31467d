"""The folders of a server that is started here: a home, kept between starts if it has a place, and scratch folders."""

import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from spindle.errors import UpstreamError

_HOME_FOLDERS = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
}
_CACHES = {"npm_config_cache": ".npm", "UV_CACHE_DIR": ".cache/uv", "DENO_DIR": ".cache/deno"}
"""Variables that would lead package managers elsewhere; they create the folders themselves."""
_SCRATCH_FOLDERS = {"TMPDIR": "tmp", "XDG_RUNTIME_DIR": "run"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerFolders:
    """The folders of a running server, and the variables that point to them."""

    home: str
    scratch: str
    variables: dict[str, str]


class ServerHome:
    """The private folders of one server, kept across restarts.

    Scratch folders are removed at the end, and a home without a `place` is one of them.
    """

    def __init__(self, place: str | None = None, *, server: str = "") -> None:
        self._place = None if place is None else Path(place)
        self._server = server
        self._scratch: Path | None = None

    def create(self) -> ServerFolders:
        """Create the folders.

        Raises:
            UpstreamError: The place of the home is not a folder.
            OSError: A folder cannot be created.
        """
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="spindle-mcp-")).resolve()
            for name in _SCRATCH_FOLDERS.values():
                (self._scratch / name).mkdir(mode=0o700)
        home = self._create_home(self._scratch / "home" if self._place is None else self._place)
        variables = {name: str(home / folder) for name, folder in (_HOME_FOLDERS | _CACHES).items()}
        variables |= {name: str(self._scratch / folder) for name, folder in _SCRATCH_FOLDERS.items()}
        return ServerFolders(home=str(home), scratch=str(self._scratch), variables={"HOME": str(home), **variables})

    def _create_home(self, home: Path) -> Path:
        home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        home = home.parent.resolve() / home.name
        try:
            home.mkdir(mode=0o700)
        except FileExistsError:
            # The server may have put links into it: nothing below it is touched again.
            if not stat.S_ISDIR(home.lstat().st_mode):
                raise UpstreamError(
                    f"the home {str(home)!r} of MCP server {self._server!r} is not a folder; remove it",
                    server=self._server,
                ) from None
            home.chmod(0o700)
        else:
            for folder in _HOME_FOLDERS.values():
                (home / folder).mkdir(mode=0o700, parents=True)
        return home

    def remove(self) -> None:
        """Remove the scratch folders; errors are ignored."""
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None
