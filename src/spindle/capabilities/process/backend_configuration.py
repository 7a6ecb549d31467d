"""Configuration files outside the visible paths: which may still be read, and how programs skip the others.

Landlock can deny access to a file but not hide it, and git fails if it may not read a configuration file that exists.
"""

import os
import re
import stat
from collections.abc import Mapping

from spindle.capabilities.process.backend_sandbox import VisiblePaths

SYSTEM_GIT_CONFIG = "/etc/gitconfig"

_MAX_BYTES = 1 << 16
_SECTION = re.compile(r"^\s*\[\s*([\w.-]*)", re.MULTILINE)
_HARMLESS_SECTIONS = {
    *("advice", "branch", "color", "column", "commit", "core", "diff", "fetch", "filter", "gc", "grep", "help", "http"),
    *("init", "log", "merge", "pack", "pager", "pull", "push", "rebase", "receive", "rerere", "safe", "status"),
    *("submodule", "tag", "transfer", "uploadpack", "url", "user"),
}
_SUSPECT = re.compile(
    r"pass|token|secret|key|auth|cookie|credential|helper|header|command"
    r"|//[^/\s]*@"  # a URL with a user or a password
    r"|[a-z0-9+_=-]{32}"  # long enough for a token, whatever its key
    r"|include|hookspath"  # refers to other files, which git must be able to read too
)


def add_configuration(view: VisiblePaths) -> VisiblePaths:
    """Add the system's git configuration to the visible paths, if it contains no secrets."""
    if not _is_harmless(SYSTEM_GIT_CONFIG):
        return view
    return view.with_read(SYSTEM_GIT_CONFIG, os.path.realpath(SYSTEM_GIT_CONFIG))


def skip_configuration(view: VisiblePaths, env: Mapping[str, str], scratch: str) -> dict[str, str]:
    """Return environment variables that make programs skip files outside the visible paths."""
    variables: dict[str, str] = {}
    if os.path.lexists(SYSTEM_GIT_CONFIG) and not view.can_read(SYSTEM_GIT_CONFIG):
        variables["GIT_CONFIG_NOSYSTEM"] = "1"
    home = env.get("HOME")
    if home is not None and not view.can_read(home):
        variables["GIT_CONFIG_GLOBAL"] = os.devnull
    if home is not None and not view.can_write(home):
        variables["NPM_CONFIG_CACHE"] = f"{scratch}/.npm"
    return variables


def _is_harmless(path: str) -> bool:
    """Return True if a git configuration file is world-readable and has only known, harmless settings."""
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode) or not mode & stat.S_IROTH:
                return False
            text = file.read(_MAX_BYTES + 1).decode("utf-8").lower()
    except (OSError, UnicodeDecodeError):
        return False
    sections = set(_SECTION.findall(text))
    return len(text) <= _MAX_BYTES and sections <= _HARMLESS_SECTIONS and not _SUSPECT.search(text)


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
