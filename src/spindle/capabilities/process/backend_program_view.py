"""The files that a long-running program can see: its home, the folders declared for it, and what it needs to run.

Files that were not declared by their own names stay hidden in declared folders: credentials, `.env` files and Spindle's
own files. They are searched for at each start.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from spindle.capabilities.files.paths import Places
from spindle.capabilities.process.backend_installation import Installation, resolve_outside
from spindle.capabilities.process.backend_view import (
    SYSTEM_PATHS,
    VisiblePaths,
    WithheldFinder,
    add_configuration,
    is_beneath,
)
from spindle.capabilities.withheld import OWN_FILES, WithheldPaths, split_path
from spindle.errors import CapabilityError

MAX_SEARCHED_FOLDERS = 10_000
MAX_SPLIT_PATHS = 2_000
_NOT_SEARCHED = frozenset(("node_modules", "site-packages", "__pycache__", ".git"))
_PLAIN_ENV_FILES = (".example", ".sample", ".template", ".dist", ".defaults")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredReach:
    """What was declared for a program; all paths are absolute."""

    home: str
    """The folder that is its own: it exists, is real, and the program may write to it."""
    scratch: str
    """A folder for temporary files, likewise."""
    cwd: str
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    network: bool = True

    def list_writable(self) -> tuple[str, ...]:
        """Return the paths that the program may write, without links."""
        return tuple(dict.fromkeys((self.home, self.scratch, *map(os.path.realpath, self.write))))


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramView:
    """The visible paths of a program, and what could not be done as declared."""

    paths: VisiblePaths
    read: tuple[str, ...]
    """The readable paths besides those of the system and of its installation."""
    installation: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_searched: bool = True
    """Whether the declared folders were searched completely for files to hide."""


def build_program_view(reach: DeclaredReach, installation: Installation) -> ProgramView:
    """Build the visible paths of a program; it searches the declared folders, which blocks.

    Raises:
        CapabilityError: A declared folder contains the state folder and too many other files.
    """
    notes = [f"{path} does not exist" for path in (*reach.read, *reach.write) if not os.path.lexists(path)]
    writable = reach.list_writable()
    # Links in folders that the program may write are not followed: it could have planted them.
    declared = [path for path in reach.read if _is_outside(path, writable)]
    unasked = [path for path in (*installation.folders, *installation.named) if _is_outside(path, writable)]
    around_home = [path for path in _list_own() if is_beneath(reach.home, (path,))]
    listed: list[str] = []
    read = tuple(_split_around((*declared, *unasked), around_home, listed))
    write = tuple(_split_around(reach.write, around_home, listed))
    view = VisiblePaths.from_grants(reach.home, read, (*write, reach.scratch), network=reach.network)
    # The home is its own: what looks like credentials there was written by the program itself.
    view = replace(view, granted=(), places=(os.path.realpath(reach.cwd),), listed=tuple(dict.fromkeys(listed)))
    view = WithheldFinder(reach.home, (".",)).hide(view)
    shown = (*map(os.path.realpath, read), *map(os.path.realpath, write))
    found = _HiddenFiles(shown, around_home)
    exact = {*map(os.path.realpath, (*reach.read, *reach.write))}
    hidden = [path for path in sorted({*view.hidden, *found.hidden}) if path not in exact]
    outermost = tuple(path for path in hidden if not is_beneath(path, {*hidden} - {path}))
    view = replace(view, hidden=outermost).with_read(*installation.files)
    if not found.is_complete:
        notes.append(f"files to hide were searched for in the first {MAX_SEARCHED_FOLDERS} folders only")
    return ProgramView(
        paths=add_configuration(view),
        read=tuple(path for path in dict.fromkeys(read) if not is_beneath(path, SYSTEM_PATHS)),
        installation=installation.files,
        notes=tuple(notes),
        is_searched=found.is_complete,
    )


def _is_outside(path: str, writable: Iterable[str]) -> bool:
    with suppress(OSError):
        return resolve_outside(path, writable) is not None
    return False


def _list_own() -> list[str]:
    paths = [own.given for own in OWN_FILES.paths()]
    return list(dict.fromkeys(each for path in paths for each in (path, os.path.realpath(path))))


def _split_around(paths: Iterable[str], kept_out: Iterable[str], split: list[str]) -> Iterator[str]:
    """Yield the paths; of a folder that contains one of `kept_out`, yield the entries around it, and add it to `split`.

    A hidden folder would cover the home that lies in it, so the folder around the home must not be visible at all.
    """
    pending, count = list(paths)[::-1], 0
    while pending:
        path = pending.pop()
        real = os.path.realpath(path)
        if not any(is_beneath(own, (real,)) and own != real for own in kept_out):
            count += 1
            if count > MAX_SPLIT_PATHS:
                raise CapabilityError(
                    f"a declared folder contains the state folder and more than {MAX_SPLIT_PATHS} other entries; "
                    "declare folders below it",
                    field="process",
                )
            yield path
            continue
        split.append(real)
        with suppress(OSError), os.scandir(real) as entries:
            found = sorted(entry.path for entry in entries if not entry.is_symlink())
            pending += [each for each in found if each not in kept_out][::-1]


class _HiddenFiles:
    """A search for credentials, `.env` files and Spindle's own files in the declared folders."""

    def __init__(self, tops: Iterable[str], around_home: Iterable[str]) -> None:
        self.hidden: list[str] = []
        self.is_complete = True
        self._rules = WithheldPaths("/", Places((), what="read"))
        self._around_home = frozenset(around_home)
        # The folders of the system are readable anyway.
        pending = [path for path in tops if not is_beneath(path, SYSTEM_PATHS)]
        searched = 0
        while pending:
            if searched == MAX_SEARCHED_FOLDERS:
                self.is_complete = False
                return
            searched += 1
            with suppress(OSError):  # not a folder, or not readable, also for the program
                pending += self._search_folder(pending.pop())

    def _search_folder(self, folder: str) -> list[str]:
        folders: list[str] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    continue
                if self._is_withheld(entry):
                    self.hidden.append(entry.path)
                elif entry.is_dir() and entry.name not in _NOT_SEARCHED:
                    folders.append(entry.path)
        return folders

    def _is_withheld(self, entry: "os.DirEntry[str]") -> bool:
        if entry.path in self._around_home:
            return False  # declared by its own name, or the declared paths lie around it
        if _is_env_file(entry.name) and entry.is_file(follow_symlinks=False):
            return True
        return self._rules.may_withhold(entry.name) and self._rules.find_reason(split_path(entry.path)) is not None


def _is_env_file(name: str) -> bool:
    folded = name.lower()
    is_named = folded in {".env", ".envrc"} or folded.startswith(".env.")
    return is_named and not folded.endswith(_PLAIN_ENV_FILES)
