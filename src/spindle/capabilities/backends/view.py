"""What a confined command sees of the machine."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from spindle.errors import CapabilityError

SYSTEM_PATHS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld-musl-x86_64.path", "/etc/alternatives"),
    *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime", "/etc/timezone", "/etc/locale.conf"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/ca-trust", "/etc/ca-certificates"),
    *("/etc/mime.types", "/etc/magic", "/etc/terminfo", "/etc/protocols", "/etc/services"),
)
"""What programs need to start at all; no configuration that could hold a secret."""

NETWORK_PATHS = ("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
OWN_PROC = ("/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/loadavg", "/proc/version")
"""Of /proc, when it shows the whole machine's processes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """The granted part of the machine; all paths are absolute and real."""

    root: str
    read: tuple[str, ...]
    write: tuple[str, ...]
    network: bool

    @classmethod
    def of(cls, root: str, read_paths: Iterable[str], write_paths: Iterable[str], *, network: bool) -> "View":
        """Add what every command needs to what was granted.

        Raises:
            CapabilityError: A path is not absolute.
        """
        read = [*_real(read_paths, "read_paths")]
        write = [root, *_real(write_paths, "write_paths")]
        system = [*SYSTEM_PATHS, *(NETWORK_PATHS if network else ())]
        return cls(root=root, read=(*system, *read), write=tuple(write), network=network)

    def with_program(self, path: str) -> "View":
        """See one program too, wherever it lies."""
        return View(
            root=self.root, read=(*self.read, path, os.path.realpath(path)), write=self.write, network=self.network
        )


def _real(paths: Iterable[str], field: str) -> list[str]:
    if isinstance(paths, (str, bytes)):
        raise CapabilityError(f"{field}: expected a list of paths, got {paths!r}", field="process")
    given = [os.fspath(path) for path in paths]
    for path in given:
        if not path.startswith("/"):
            raise CapabilityError(f"{field}: expected absolute paths, got {path!r}", field="process")
    return [os.path.realpath(path) for path in given]
