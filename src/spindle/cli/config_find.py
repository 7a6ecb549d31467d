"""Which file configures this run."""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from spindle.errors import InvalidConfigError

NAME = "spindle.toml"


def find_config(given: Path | None, *, cwd: Path, environ: Mapping[str, str]) -> Path | None:
    """The file that was named, else the nearest one from the working folder upwards, else the user's own.

    Raises:
        InvalidConfigError: The named file is not there, or a found one belongs to somebody else.
    """
    named, by = (given, "--config") if given is not None else (environ.get("SPINDLE_CONFIG") or None, "SPINDLE_CONFIG")
    if named is not None:
        path = (cwd / Path(named).expanduser()).absolute()
        if not path.is_file():
            raise InvalidConfigError(f"{path}: {by} names this file, and it is not there", path=str(path))
        return path
    for path in _candidates(cwd, environ):
        if path.is_file():
            _check_owner(path)
            return path
    return None


def config_home(environ: Mapping[str, str]) -> Path:
    """The folder of the user's own configuration."""
    return _base(environ, "XDG_CONFIG_HOME", ".config") / "spindle"


def state_home(environ: Mapping[str, str]) -> Path:
    """The folder of what is kept when no place is named."""
    return _base(environ, "XDG_STATE_HOME", ".local/state") / "spindle"


def _base(environ: Mapping[str, str], variable: str, otherwise: str) -> Path:
    given = Path(environ.get(variable) or "")
    # As the specification of these variables wants it: a relative path does not count.
    return given if given.is_absolute() else Path(environ.get("HOME") or Path.home()) / otherwise


def _candidates(cwd: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environ.get("HOME") or "/")
    for folder in (cwd, *cwd.parents):
        yield folder / NAME
        if folder == home:
            break
    yield config_home(environ) / NAME


def _check_owner(path: Path) -> None:
    # A configuration starts programs, and this one was not asked for by name: another user's must not run as us.
    if os.name != "posix":
        return
    found = path.stat()
    if found.st_uid not in {0, os.geteuid()} or stat.S_IMODE(found.st_mode) & 0o002:
        why = "anybody may write it" if found.st_mode & 0o002 else f"it belongs to another user ({found.st_uid})"
        raise InvalidConfigError(
            f"{path}: found here, and {why}; name it with --config if you trust it", path=str(path)
        )
