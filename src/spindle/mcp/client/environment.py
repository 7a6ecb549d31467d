"""The environment of a server that is started here, and the program that it names."""

import os
import shutil
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from spindle.mcp.spec import ServerSpec

INHERITED = ("PATH", "USER", "LANG", "LC_ALL", "TERM", "SHELL")
_SENSITIVE = ("KEY", "TOKEN", "SECRET", "PASSWORD")


def build_environment(
    spec: ServerSpec, own: Mapping[str, str], scratch: Mapping[str, str], secrets: Mapping[str, str]
) -> dict[str, str]:
    """Build a server's environment; of `own`, the environment of this process, only listed variables are passed on.

    A name that looks secret is passed only when `env_passthrough`, `env` or `env_secrets` names it exactly.
    """
    passed = {name: own[name] for name in INHERITED if name in own}
    for wanted in spec.env_passthrough:
        passed |= {name: own[name] for name in own if name == wanted or _is_covered(name, wanted)}
    # Some shells execute a function definition in a variable (Shellshock).
    passed = {name: value for name, value in passed.items() if not value.startswith("()")}
    given = {**passed, **spec.env, **secrets}
    if "HOME" in given:  # then programs must find the files they keep below it, such as a cache
        scratch = {name: place for name, place in scratch.items() if not name.endswith("_HOME")}
    return {**scratch, **given}


def _is_covered(name: str, pattern: str) -> bool:
    is_sensitive = any(word in name.upper() for word in _SENSITIVE)
    return not is_sensitive and fnmatchcase(name, pattern)


def find_program(command: str, env: Mapping[str, str], cwd: str | None) -> str | None:
    """Resolve a command to a program on the server's own PATH, or return `None`."""
    if os.path.dirname(command):  # noqa: PTH120  only a bare name is looked up, and a Path drops the ./ of ./name
        base = Path(cwd) if cwd else Path()
        return command if (base / command).exists() else None
    return shutil.which(command, path=env.get("PATH", os.defpath))
