"""What a confined command sees of the machine."""

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from spindle.errors import CapabilityError

SYSTEM_PATHS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld-musl-x86_64.path", "/etc/alternatives"),
    *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime", "/etc/timezone", "/etc/locale.conf"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/ca-trust", "/etc/ca-certificates"),
    *("/etc/mime.types", "/etc/magic", "/etc/terminfo", "/etc/protocols", "/etc/services"),
    *("/etc/locale.alias", "/etc/gitattributes"),
)
"""What programs need to start at all; no configuration that could hold a secret."""

SYSTEM_PATTERNS = ("/etc/python3*", "/etc/*-release", "/etc/*_version")
"""More of the same, under names that differ between systems: pip, for one, fails if it may not read them."""

NETWORK_PATHS = ("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
OWN_PROC = ("/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/loadavg", "/proc/version")
"""Of /proc, when it shows the whole machine's processes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """The granted part of the machine; the paths in `root`, `write` and the grants in `read` are absolute and real."""

    root: str
    read: tuple[str, ...]
    write: tuple[str, ...]
    network: bool
    aliases: tuple[str, ...] = ()
    """Granted paths as they were given, where symbolic links lead to them."""

    @classmethod
    def of(cls, root: str, read_paths: Iterable[str], write_paths: Iterable[str], *, network: bool) -> "View":
        """Add what every command needs to what was granted.

        Raises:
            CapabilityError: A path is not absolute.
        """
        given_read = _check_absolute(read_paths, "read_paths")
        given_root = root if root.startswith("/") else str(Path.cwd() / root)
        given_write = [given_root, *_check_absolute(write_paths, "write_paths")]
        write = dict.fromkeys(os.path.realpath(path) for path in given_write)
        found = [path for pattern in SYSTEM_PATTERNS for path in sorted(glob.glob(pattern))]  # noqa: PTH207 - texts
        view = cls(
            root=os.path.realpath(root),
            read=(*SYSTEM_PATHS, *found, *(NETWORK_PATHS if network else ())),
            # As in `with_read`: a path within another one to write may be a link tomorrow.
            write=tuple(path for path in write if not _is_beneath(path, write.keys() - {path})),
            network=network,
            aliases=tuple(path for path in (*given_read, *given_write) if path != os.path.realpath(path)),
        )
        return view.with_read(*map(os.path.realpath, given_read))

    def with_read(self, *paths: str) -> "View":
        """See these paths too.

        Those that may be written are left out: they are seen already, and where a command can put a symbolic link in
        place of a path, the next command would see what the link points to.
        """
        return replace(self, read=(*self.read, *(path for path in paths if not _is_beneath(path, self.write))))

    def with_program(self, path: str) -> "View":
        """See one program too, wherever it lies."""
        return self if _is_beneath(path, self.write) else self.with_read(path, os.path.realpath(path))

    def sees(self, path: str) -> bool:
        """Tell whether a path can be read."""
        return _is_beneath(os.path.realpath(path), (*self.read, *self.write))

    def can_write(self, path: str) -> bool:
        """Tell whether a path can be written."""
        return _is_beneath(os.path.realpath(path), self.write)


def _is_beneath(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _check_absolute(paths: Iterable[str], field: str) -> list[str]:
    if isinstance(paths, (str, bytes)):
        raise CapabilityError(f"{field}: expected a list of paths, got {paths!r}", field="process")
    given = [os.fspath(path) for path in paths]
    for path in given:
        if not path.startswith("/"):
            raise CapabilityError(f"{field}: expected absolute paths, got {path!r}", field="process")
    return given
