"""The files a command can see: granted paths, those every program needs, and the withheld files among them.

Configuration outside the visible paths is skipped by environment variables: Landlock can deny access to a file but not
hide it, and git fails if it may not read a configuration file that exists.
"""

import glob
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from spindle.capabilities.declare import FileReach
from spindle.capabilities.files.paths import Names, Places
from spindle.capabilities.process.backend_links import find_linked_files, find_links
from spindle.capabilities.withheld import CREDENTIALS, SYSTEM_CREDENTIALS, WithheldPaths, split_path
from spindle.errors import CapabilityError

SYSTEM_PATHS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld-musl-x86_64.path", "/etc/alternatives"),
    *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime", "/etc/timezone", "/etc/locale.conf"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/ca-trust", "/etc/ca-certificates"),
    *("/etc/mime.types", "/etc/magic", "/etc/terminfo", "/etc/protocols", "/etc/services"),
    *("/etc/locale.alias", "/etc/gitattributes"),
)
"""Paths that programs need to start; no configuration that could contain secrets."""

SYSTEM_PATTERNS = ("/etc/python3*", "/etc/*-release", "/etc/*_version")
"""More such paths, whose names differ between systems; pip, for example, fails if it may not read them."""

NETWORK_PATHS = ("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
OWN_PROC = ("/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/loadavg", "/proc/version")
"""The visible part of /proc where it shows the processes of the whole machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VisiblePaths:
    """The paths a command may read and write; `root`, `write` and the granted part of `read` are absolute and real."""

    root: str
    read: tuple[str, ...]
    write: tuple[str, ...]
    network: bool
    aliases: tuple[str, ...] = ()
    """Granted paths as the caller wrote them, where they are symbolic links to real ones."""
    write_only: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    """Folders that exist in a private root although nothing in them may be visible, such as a working directory."""
    listed: tuple[str, ...] = ()
    """Folders whose entries may be listed where a private root shows only the visible ones."""
    hidden: tuple[str, ...] = ()
    """Withheld files and folders within the other paths."""
    granted: tuple[str, ...] = ()
    """The granted paths below the root."""
    more_read: tuple[str, ...] = ()
    """Granted paths besides the root."""
    more_write: tuple[str, ...] = ()
    is_narrow: bool = False
    """Whether the command may reach less than the root."""
    has_own_links: bool = False
    """Whether a writable path has a link to one of Spindle's own files, which a command could replace."""

    @classmethod
    def from_grants(
        cls, root: str, read_paths: Iterable[str], write_paths: Iterable[str], *, network: bool
    ) -> "VisiblePaths":
        """Build the visible paths from the grants and the paths every command needs; all of the root is writable.

        Raises:
            CapabilityError: A path is not absolute.
        """
        given_read, given_write = _check_absolute(read_paths, "read_paths"), _check_absolute(write_paths, "write_paths")
        given_root, real_root = root if root.startswith("/") else str(Path.cwd() / root), os.path.realpath(root)
        found = [path for pattern in SYSTEM_PATTERNS for path in sorted(glob.glob(pattern))]  # noqa: PTH207 - texts
        given = (*given_read, given_root, *given_write)
        view = cls(
            root=real_root,
            read=(*SYSTEM_PATHS, *found, *(NETWORK_PATHS if network else ())),
            write=(),
            network=network,
            aliases=tuple(path for path in given if path != os.path.realpath(path)),
            # Resolved once: a command could replace a path within a writable one by a symbolic link.
            more_read=tuple(map(os.path.realpath, given_read)),
            more_write=tuple(map(os.path.realpath, given_write)),
        )
        return view.with_reach(CommandReach(read=((),), write=((),)))

    def with_reach(self, reach: "CommandReach") -> "VisiblePaths":
        """Return a copy that shows, of the root, only what a command may read and write."""
        readable, writable = (_locate(self.root, names) for names in (reach.read, reach.write))
        write = dict.fromkeys([*(path for path in writable if is_beneath(path, readable)), *self.more_write])
        view = replace(
            self,
            read=tuple(path for path in self.read if path not in (*self.granted, *self.more_read)),
            # As in `with_read`: a path within a writable one may be replaced by a link later.
            write=tuple(path for path in write if not is_beneath(path, write.keys() - {path})),
            write_only=tuple(path for path in writable if path not in write),
            granted=tuple(dict.fromkeys([*readable, *writable])),
            is_narrow=self.root not in write,
        )
        return view.with_read(*readable, *self.more_read)

    def with_read(self, *paths: str) -> "VisiblePaths":
        """Return a copy with more readable paths.

        Paths within writable ones are left out: they are visible already, and a command could replace such a path by a
        symbolic link whose target the next command would then see.
        """
        return replace(self, read=(*self.read, *(path for path in paths if not is_beneath(path, self.write))))

    def with_program(self, path: str) -> "VisiblePaths":
        """Return a copy in which one program is readable, wherever it is.

        A link to it is followed only outside the paths that a command, if not this one, may write.
        """
        real = os.path.realpath(path)
        return (
            self.with_read(path, real) if real == path or not is_beneath(path, (self.root, *self.more_write)) else self
        )

    def with_scratch(self, folder: str) -> "VisiblePaths":
        """Return a copy in which a scratch folder is writable."""
        return self if is_beneath(folder, self.write) else replace(self, write=(*self.write, folder))

    def can_read(self, path: str) -> bool:
        """Return True if a path can be read."""
        return is_beneath(os.path.realpath(path), (*self.read, *self.write))

    def can_write(self, path: str) -> bool:
        """Return True if a path can be written."""
        return is_beneath(os.path.realpath(path), (*self.write, *self.write_only))

    def list_pins(self) -> tuple[str, ...]:
        """Return the writable folders above hidden paths: a command that could rename one would uncover the path."""
        tops = {*self.write, *self.write_only}
        pins: set[str] = set()
        for path in self.hidden:
            folder = os.path.dirname(path)  # noqa: PTH120 - a text
            while folder not in tops and is_beneath(folder, tops):
                pins.add(folder)
                folder = os.path.dirname(folder)  # noqa: PTH120 - a text
        return tuple(sorted(pins))

    def list_requirements(self) -> tuple[str, ...]:
        """Return the names of what a sandbox must enforce, because the command may reach less than the root."""
        writable = (*self.write, *self.write_only)
        needs = {
            "files": self.is_narrow or bool(self.hidden),
            # Landlock grants folders with all that is in them.
            "root": any(is_beneath(path, writable) for path in self.hidden)
            or any(is_beneath(path, self.write_only) for path in self.read),
            "write_only": bool(self.write_only),
            "own_links": self.has_own_links,
        }
        return tuple(name for name, is_needed in needs.items() if is_needed)

    def split_read(self) -> tuple[list[str], list[str]]:
        """Return the readable paths around the hidden ones, and the folders between them, of which only names are read.

        This is for a sandbox that cannot hide a file in a folder that it grants.
        """
        found: list[str] = []
        between: list[str] = []
        pending = list(self.read)
        while pending:
            path = pending.pop()
            if path in self.hidden:
                continue
            if not any(is_beneath(hidden, (path,)) for hidden in self.hidden):
                found.append(path)
            else:
                between.append(path)
                with suppress(OSError):
                    pending += [entry.path for entry in os.scandir(path) if not entry.is_symlink()]
        return found, between


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandReach:
    """The paths below the root that a command may read and write, by their names."""

    read: tuple[Names, ...]
    write: tuple[Names, ...]

    @classmethod
    def build(cls, granted: "CommandReach", declared: FileReach | None) -> "CommandReach":
        """Return what was granted; of a tool that declares files, only what it declared too.

        Raises:
            CapabilityError: The tool declared a path outside the root.
        """
        if declared is None:
            return granted
        read, write = (Places(paths, what="files") for paths in (declared.read, declared.write))
        return cls(read=_intersect(granted.read, read.tops), write=_intersect(granted.write, write.tops))


def _intersect(some: Iterable[Names], others: Iterable[Names]) -> tuple[Names, ...]:
    pairs = ((a, b) if len(a) >= len(b) else (b, a) for a in some for b in others)
    return tuple(dict.fromkeys(deep for deep, high in pairs if deep[: len(high)] == high))


def _locate(root: str, tops: Iterable[Names]) -> list[str]:
    paths = [os.path.join(root, *names) for names in tops]  # noqa: PTH118 - texts
    found = [path for path in paths if os.path.realpath(path) == path]
    return [path for path in found if not is_beneath(path, {*found} - {path})]


MAX_FOLDERS = 50_000
_RACY_SECONDS = 2


class WithheldFinder:
    """A search for withheld files in granted folders, which remembers the folders that have not changed."""

    def __init__(self, root: str, opened: Iterable[str]) -> None:
        """Take the root, absolute and real, and the credential files below it that are not withheld.

        Raises:
            CapabilityError: A path is not below the root, or the root itself is withheld.
        """
        self._root = WithheldPaths(root, Places(opened, what="credential_files"))
        reason = self._root.find_reason(())
        if reason is not None:
            raise CapabilityError(f"{root!r} cannot be the root of commands: {reason}", field="process")
        self._folders: dict[str, tuple[tuple[int, ...], list[str], list[str]]] = {}

    def hide(self, view: VisiblePaths) -> VisiblePaths:
        """Return a copy of the visible paths in which the withheld files are hidden.

        Raises:
            CapabilityError: There are too many folders to search.
        """
        hidden = dict.fromkeys(self._search(view.granted))
        more = (*view.more_read, *view.more_write)
        hidden |= dict.fromkeys(path for path in list_known_credentials(more) if not is_beneath(path, SYSTEM_PATHS))
        has_links = False
        shown = (*view.granted, *more)
        for own in self._root.list_own(everywhere=True):
            real = os.path.realpath(own)
            if is_beneath(view.root, (own, real)):
                continue  # a root within the state folder
            has_links |= real != own and is_beneath(own, (*view.write, *view.write_only))
            if is_beneath(real, shown) and os.path.lexists(real):
                hidden[real] = None
        for beginning in self._root.list_beginnings():
            if is_beneath(os.path.dirname(beginning), more):  # noqa: PTH120 - a text; the root is searched by name
                hidden |= dict.fromkeys(glob.glob(f"{glob.escape(beginning)}*"))  # noqa: PTH207 - texts
        hidden |= dict.fromkeys(self._search_links(view.granted, hidden))
        outermost = [path for path in sorted(hidden) if not is_beneath(path, hidden.keys() - {path})]
        return replace(view, hidden=tuple(outermost), has_own_links=has_links)

    def _search_links(self, tops: Iterable[str], hidden: Iterable[str]) -> Iterator[str]:
        """Yield other names of Spindle's own and of hidden files: with Landlock, one name opens the file by all."""
        own = [path for path in self._root.list_own(everywhere=True) if os.path.isfile(path)]  # noqa: PTH113 - a text
        files = find_linked_files((*own, *hidden))
        pending = list(tops) if files else []
        while pending:
            here = pending.pop()
            yield from find_links(here, files)
            pending += self._list(here, self._root)[0]

    def _search(self, tops: Iterable[str]) -> Iterator[str]:
        pending, searched = list(tops), 0
        while pending:
            here = pending.pop()
            if self._root.find_reason(_relative(here, self._root)) is not None:
                yield here
                continue
            folders, found = self._list(here, self._root)
            yield from found
            pending += folders
            searched += 1
            if searched > MAX_FOLDERS:
                raise CapabilityError(
                    f"the granted paths have more than {MAX_FOLDERS} folders, too many to search for credential files; "
                    "grant less with read and write",
                    field="process",
                )

    def _list(self, folder: str, rules: WithheldPaths) -> tuple[list[str], list[str]]:
        try:
            info = os.stat(folder, follow_symlinks=False)  # noqa: PTH116 - a text
            key = (rules.version, info.st_ino, info.st_ctime_ns)
            known = self._folders.get(folder)
            if known is not None and known[0] == key:
                return known[1], known[2]
            folders: list[str] = []
            found: list[str] = []
            with os.scandir(folder) as entries:
                for entry in entries:
                    if rules.may_withhold(entry.name) and rules.find_reason(_relative(entry.path, rules)) is not None:
                        found.append(entry.path)
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:  # not a folder, or not readable, also for a command
            return [], []
        if time.time() - info.st_ctime > _RACY_SECONDS:  # a later change would have the same time
            self._folders[folder] = (key, folders, found)
        return folders, found


def list_known_credentials(tops: Iterable[str]) -> list[str]:
    """Return the credential files below these paths where programs look for them: in home folders and the system's.

    Paths besides the root may be all of the machine, which is not searched.
    """
    tops = tuple(tops)
    if not tops:
        return []
    homes = {*tops, os.path.expanduser("~"), "/root", *glob.glob("/home/*"), *glob.glob("/Users/*")}  # noqa: PTH111, PTH207 - texts
    paths = [*SYSTEM_CREDENTIALS, *(f"{home.rstrip('/')}/{path}" for home in homes for path in CREDENTIALS)]
    return [path for path in paths if is_beneath(path, tops) and os.path.lexists(path)]


def _relative(path: str, rules: WithheldPaths) -> Names:
    return split_path(path)[len(rules.root) :]


def is_beneath(path: str, folders: Iterable[str]) -> bool:
    """Return True if a path is one of these, or below one."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _check_absolute(paths: Iterable[str], field: str) -> list[str]:
    if isinstance(paths, (str, bytes)):
        raise CapabilityError(f"{field}: expected a list of paths, got {paths!r}", field="process")
    given = [os.fspath(path) for path in paths]
    for path in given:
        if not path.startswith("/"):
            raise CapabilityError(f"{field}: expected absolute paths, got {path!r}", field="process")
    return given


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
