"""Paths that a grant does not open: credential files, unless they are named, and the files that Spindle itself uses."""

import os
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from threading import Lock
from typing import Protocol, TypeAlias

Names: TypeAlias = tuple[str, ...]

CREDENTIALS = (
    *(".ssh", ".aws", ".azure", ".gnupg", ".password-store", ".netrc", "_netrc", ".npmrc", ".pypirc"),
    *(".git-credentials", ".pgpass", ".my.cnf", ".mylogin.cnf", ".s3cfg", ".boto", ".vault-token", ".terraformrc"),
    *(".htpasswd", ".dockercfg", ".databrickscfg", ".snowflake", ".oci", ".bluemix", ".fly", ".cloudflared", ".ngrok2"),
    *(".bash_history", ".zsh_history", ".sh_history", ".history", ".python_history", ".node_repl_history"),
    *(".psql_history", ".mysql_history", ".sqlite_history", ".rediscli_history", ".mongo_history", ".irb_history"),
    *(".terraform.d/credentials.tfrc.json", ".docker/config.json", ".kube/config", ".cargo/credentials"),
    *(".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".m2/settings-security.xml"),
    *(".gradle/gradle.properties", ".nuget/nuget.config", ".composer/auth.json", ".subversion/auth"),
    *(".config/gcloud", ".config/gh", ".config/hub", ".config/glab-cli", ".config/git/credentials", ".config/rclone"),
    *(".config/op", ".config/sops", ".config/doctl", ".config/heroku", ".config/helm", ".config/containers/auth.json"),
    *(".config/pypoetry/auth.toml", ".config/composer/auth.json", ".config/fish/fish_history"),
    *(".config/google-chrome", ".config/chromium", ".mozilla", ".thunderbird", ".local/share/keyrings"),
    *(".local/share/fish/fish_history", ".local/share/kwalletd", "library/keychains", "library/cookies"),
    *("library/application support/google/chrome", "library/application support/firefox"),
)
"""Files and folders in which programs keep credentials and histories, wherever they are; lower case."""

SYSTEM_CREDENTIALS = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/master.passwd", "/etc/spwd.db"),
    *("/etc/security/opasswd", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh", "/etc/ssl/private", "/etc/krb5.keytab"),
    *("/etc/pki/tls/private", "/etc/kubernetes", "/etc/rancher", "/etc/wireguard", "/etc/openvpn", "/etc/ppp"),
    *("/etc/networkmanager/system-connections", "/etc/letsencrypt", "/etc/docker/key.json", "/etc/pam_ldap.secret"),
    *("/run/secrets", "/var/run/secrets", "/run/credentials", "/var/lib/kubelet", "/var/lib/sss", "/var/db/dslocal"),
)
"""Credentials of the machine itself; lower case."""


OWN_REASON = "it belongs to Spindle itself (configuration, secrets, state, journal or spool); no grant opens it"


def fold_name(name: str) -> str:
    """Return a name as the most lenient file system compares it: without case, ignorable characters, final dots."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
        name = "".join(character for character in name if unicodedata.category(character) != "Cf")
    return name.casefold().rstrip(". ") or name


def _index(paths: Iterable[str]) -> dict[str, tuple[Names, ...]]:
    found: dict[str, tuple[Names, ...]] = {}
    for path in paths:
        names = tuple(name for name in path.split("/") if name)
        found[names[0]] = (*found.get(names[0], ()), names)
    return found


_ANYWHERE, _FROM_ROOT = _index(CREDENTIALS), _index(SYSTEM_CREDENTIALS)
_LAST_NAMES = frozenset(path.rpartition("/")[2] for path in (*CREDENTIALS, *SYSTEM_CREDENTIALS))


def find_credentials(names: Names) -> str | None:
    """Return the entry of the list of credential files that an absolute path is or is below, or None."""
    parts = tuple(map(fold_name, names))
    if parts[:1] == ("private",):  # where macOS has /etc and /var
        parts = parts[1:]
    for at, part in enumerate(parts):
        for entry in (*_ANYWHERE.get(part, ()), *(_FROM_ROOT.get(part, ()) if at == 0 else ())):
            if parts[at : at + len(entry)] == entry:
                return "/".join(entry)
    return None


@dataclass(frozen=True, slots=True)
class OwnPath:
    """A file or folder that Spindle itself uses."""

    given: str
    """The absolute path; it may be a symbolic link."""
    places: tuple[Names, ...]
    """The names of the path, and of the path that its links lead to."""
    continued_by: tuple[str, ...] = ()
    """Beginnings of the rest of the names of further files beside it, such as `-wal`."""
    members: re.Pattern[str] | None = None
    """The names of its own files in a folder that is also the root of a backend."""


class OwnFiles:
    """The paths that Spindle uses in this process: configuration, secrets, state, journals and spools; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._paths: dict[str, OwnPath] = {}

    @property
    def version(self) -> int:
        """A number that changes when a path is added."""
        return len(self._paths)

    def add(self, path: str | os.PathLike[str], *, members: re.Pattern[str] | None = None) -> None:
        """Withhold a file, or a folder with all that is below it.

        A root within the folder is not withheld: a scratch workspace is there. If the folder itself is the root, only
        the names that match `members` are withheld.
        """
        self._add(path, members=members)

    def add_database(self, path: str | os.PathLike[str]) -> None:
        """Withhold an SQLite file with the files that belong to it."""
        self._add(path, continued_by=("-", "."))

    def paths(self) -> tuple[OwnPath, ...]:
        """Return all paths."""
        with self._lock:
            return tuple(self._paths.values())

    def _add(
        self,
        path: str | os.PathLike[str],
        *,
        continued_by: tuple[str, ...] = (),
        members: re.Pattern[str] | None = None,
    ) -> None:
        given = os.path.abspath(path)  # noqa: PTH100 - a text, which os.fspath may give as well
        places = dict.fromkeys((split_path(given), split_path(os.path.realpath(given))))
        with self._lock:
            self._paths.setdefault(given, OwnPath(given, tuple(places), continued_by, members))


OWN_FILES = OwnFiles()
"""One for the process, because the parts that open such files do not know the backends that must not reach them."""


def split_path(path: str) -> Names:
    """Return the names of an absolute path."""
    return PurePosixPath(path).parts[1:]


class PlaceSet(Protocol):
    """A set of paths relative to a root, such as `Places`."""

    def covers(self, names: Names) -> bool:
        """Return True if `names` is one of these paths or below one."""
        ...


class WithheldPaths:
    """What is withheld below one root: credential files that were not opened by name, and Spindle's own files."""

    def __init__(self, root: str, opened: PlaceSet, own: OwnFiles = OWN_FILES) -> None:
        """Take a root that is absolute and has no links, and the credential files that the caller opens."""
        self.root = split_path(root)
        self._opened = opened
        self._own = own
        self._version = -1
        self._own_below: tuple[tuple[OwnPath, Names], ...] = ()

    def find_reason(self, names: Names) -> str | None:
        """Return why a path relative to the root is withheld, or None if it is not."""
        if self.is_own(names):
            return OWN_REASON
        credentials = find_credentials((*self.root, *names))
        if credentials is None or self._opened.covers(names):
            return None
        path = "/".join(names) or "."
        return f"{credentials!r} holds credentials and is withheld; only credential_files=[{path!r}] opens it"

    @property
    def version(self) -> int:
        """A number that changes when further paths are withheld."""
        return self._own.version

    def may_withhold(self, name: str) -> bool:
        """Return False if a path whose last name this is cannot be withheld, unless a folder above it is."""
        folded = fold_name(name)
        if folded in _LAST_NAMES:
            return True
        return any(
            not place or folded == place[-1] or folded.startswith(tuple(place[-1] + rest for rest in own.continued_by))
            for own, place in self._list_own_below()
        )

    def is_own(self, names: Names) -> bool:
        """Return True if a path relative to the root is one of Spindle's own, or below one."""
        return bool(names) and any(_is_same_or_below(names, place, own) for own, place in self._list_own_below())

    def list_own(self, *, everywhere: bool = False) -> tuple[str, ...]:
        """Return the absolute paths of Spindle's own files and folders: those below the root, or all of them."""
        if everywhere:
            return tuple(own.given for own in self._own.paths())
        return tuple(dict.fromkeys(own.given for own, _ in self._list_own_below()))

    def list_beginnings(self) -> tuple[str, ...]:
        """Return the beginnings of the absolute paths of further files beside Spindle's own, such as `….sqlite-`."""
        return tuple(own.given + rest for own in self._own.paths() for rest in own.continued_by)

    def _list_own_below(self) -> tuple[tuple[OwnPath, Names], ...]:
        if self._version != self._own.version:
            paths, depth = self._own.paths(), len(self.root)
            self._own_below = tuple(
                (own, tuple(map(fold_name, place[depth:])))
                for own in paths
                for place in own.places
                # A root within such a folder was chosen by the caller.
                if place[:depth] == self.root and (len(place) > depth or own.members is not None)
            )
            self._version = len(paths)
        return self._own_below


def _is_same_or_below(names: Names, place: Names, own: OwnPath) -> bool:
    if not place:
        return own.members is not None and own.members.fullmatch(names[0]) is not None
    folded = tuple(map(fold_name, names[: len(place)]))
    if folded == place:
        return True
    return folded[:-1] == place[:-1] and folded[-1].startswith(tuple(place[-1] + rest for rest in own.continued_by))
