"""Trust in configurations that were found rather than named: which files the user has looked at and accepted.

A configuration starts programs, imports modules and passes on variables, so a cloned repository could run code by
containing one. A found file is used only if its content, and that of the local code it names, is what was accepted.
"""

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pydantic import TypeAdapter, ValidationError

from spindle.cli.config.local_code import LocalCode, find_local_code, find_module_folders
from spindle.cli.config.schema import ConfigFile
from spindle.cli.config.sources import state_home
from spindle.errors import CommandError, UntrustedConfigError

_STORE_FILE = "trusted.json"
_CHUNK_BYTES = 1 << 20
_CHANGES_SHOWN = 3


Accepted: TypeAlias = dict[str, dict[str, str]]
"""For each accepted configuration, the SHA-256 of each file by its path."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrustStore:
    """The accepted configurations of a user, in the user's state folder."""

    path: Path
    cwd: Path
    environ: Mapping[str, str]

    @classmethod
    def open(cls, *, cwd: Path, environ: Mapping[str, str]) -> "TrustStore":
        """Return the store of the user; `[spindle] state` has no say in where it is."""
        named = environ.get("SPINDLE_STATE")
        folder = Path(named).expanduser().absolute() if named else state_home(environ)
        return cls(path=folder / _STORE_FILE, cwd=cwd, environ=environ)

    def check_file(self, config: Path, data: bytes) -> None:
        """Check the configuration file itself, before anything of it is used.

        Raises:
            UntrustedConfigError: The file was never accepted, or has changed since.
        """
        accepted = self._read().get(_key(config))
        if accepted is None:
            raise UntrustedConfigError(
                f"{config} is not trusted yet: nothing in it was started or imported", path=str(config)
            )
        if accepted.get(str(config)) != hashlib.sha256(data).hexdigest():
            raise _build_change_error(config, [str(config)])

    def check_local_code(self, config: Path, file: ConfigFile) -> LocalCode:
        """Check the local modules and scripts that an accepted configuration names, and return them.

        Raises:
            UntrustedConfigError: One was added or changed since the configuration was accepted.
        """
        known = self._read().get(_key(config), {})
        now = self._hash_local_code(config, file)
        changed = sorted(path for path in now if known.get(path) != now[path])
        if changed:
            raise _build_change_error(config, changed)
        folders = find_module_folders(file, config.parent, self.environ)
        return LocalCode(folders=tuple(folders), digests=now)

    def accept(self, config: Path, data: bytes, file: ConfigFile) -> list[str]:
        """Accept a configuration and its local code as they are now; return the paths of the files."""
        files = {str(config): hashlib.sha256(data).hexdigest()} | self._hash_local_code(config, file)
        self._write(self._read() | {_key(config): files})
        return list(files)

    def revoke(self, config: Path) -> bool:
        """Forget a configuration; return whether it was accepted."""
        accepted = self._read()
        if accepted.pop(_key(config), None) is None:
            return False
        self._write(accepted)
        return True

    def _hash_local_code(self, config: Path, file: ConfigFile) -> dict[str, str]:
        found = find_local_code(file, config.parent, cwd=self.cwd, environ=self.environ)
        return {str(path): _hash_file(path) for path in found}

    def _read(self) -> Accepted:
        try:
            if os.name == "posix" and self._is_foreign(self.path.stat()):
                return {}
            return TypeAdapter(Accepted).validate_json(self.path.read_bytes())
        except (OSError, ValidationError):
            return {}

    @staticmethod
    def _is_foreign(found: os.stat_result) -> bool:
        # What another user could have written does not speak for this one.
        return found.st_uid not in {0, os.geteuid()} or bool(stat.S_IMODE(found.st_mode) & 0o022)

    def _write(self, accepted: Accepted) -> None:
        fresh = self.path.with_name(f"{_STORE_FILE}.{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
                json.dump(accepted, opened, indent=1)
            fresh.replace(self.path)
        except OSError as error:
            hint = "set SPINDLE_STATE to a folder that can be written"
            raise CommandError(f"cannot write {self.path}: {error.strerror}", exit_code=1, hint=hint) from error


def _key(config: Path) -> str:
    """Return the key of a configuration; a link to an accepted file elsewhere is another configuration."""
    return str(config.parent.resolve() / config.name)


def _hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as opened:
            while chunk := opened.read(_CHUNK_BYTES):
                digest.update(chunk)
    except (OSError, ValueError) as error:  # a path with a NUL character is a ValueError
        return f"unreadable: {error}"
    return digest.hexdigest()


def _build_change_error(config: Path, paths: list[str]) -> UntrustedConfigError:
    names = [os.path.relpath(path, config.parent) for path in paths[:_CHANGES_SHOWN]]
    more = f" and {len(paths) - _CHANGES_SHOWN} more" if len(paths) > _CHANGES_SHOWN else ""
    what = f"{', '.join(names)}{more} changed since it was trusted"
    return UntrustedConfigError(f"{config} is not trusted: {what}; nothing was started or imported", path=str(config))
