"""The files that a program needs to run: itself, its interpreter, and the environment or packages it lies in.

Facts in folders that the program itself may write, such as a shebang or a `pyvenv.cfg`, are not read: a program could
change them and see more after its next start.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EINVAL
from pathlib import Path

from spindle.capabilities.process.backend_view import SYSTEM_PATHS, is_beneath

_INTERPRETERS = re.compile(
    r"(python|pypy|node|nodejs|bun|deno|ruby|perl|php|lua|java|Rscript|sh|bash|dash|zsh|tsx|ts-node)[\d.]*"
)
_OPTIONS_WITH_FILE = {"-r", "--require", "--import", "--loader", "--experimental-loader", "-X", "-W"}
_WITHOUT_SCRIPT = {"-c", "-m", "-e", "--eval", "-p", "--print"}
_SHARED_FOLDERS = {"/", "/home", "/mnt", "/media", "/opt", "/root", "/srv", "/tmp", "/usr", "/var", "/var/tmp"}  # noqa: S108 - compared only
_PERSONAL_FOLDERS = ("", ".local", ".local/share", ".config", ".cache", "Desktop", "Documents", "Downloads")
_MAX_LINKS = 40
_MAX_DEPTH = 4
_MAX_SHEBANG = 512
_MAX_CONFIG_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """What a program needs to run, besides the paths that every program needs."""

    files: tuple[str, ...] = ()
    """Programs, interpreters, environments and packages."""
    folders: tuple[str, ...] = ()
    """Folders of scripts, which may contain other files as well."""
    named: tuple[str, ...] = ()
    """Existing paths among the arguments."""


def is_wide(folder: str) -> bool:
    """Return True if a folder contains so much that it is never granted unasked, such as the home folder."""
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 - never raises
    personal = {os.path.normpath(f"{home}/{name}") for name in _PERSONAL_FOLDERS}
    return folder in _SHARED_FOLDERS or folder in personal or is_beneath(home, (folder,))


def resolve_outside(path: str, writable: Iterable[str]) -> str | None:
    """Return the real path, or None if it is in a writable folder or a link in one leads there.

    Raises:
        OSError: There are too many links.
    """
    writable = tuple(writable)
    here, names, followed = "", path.split("/")[::-1], 0
    while names:
        name = names.pop()
        if name in {"", "."}:
            continue
        if name == "..":
            here = here.rpartition("/")[0]
            continue
        if is_beneath(f"{here}/{name}", writable):
            return None
        try:
            target = os.readlink(f"{here}/{name}")  # noqa: PTH115 - texts
        except OSError as error:
            if error.errno == EINVAL or isinstance(error, (FileNotFoundError, NotADirectoryError, PermissionError)):
                here = f"{here}/{name}"
                continue
            raise
        followed += 1
        if followed > _MAX_LINKS:
            raise OSError(f"{path}: too many symbolic links")
        names += target.split("/")[::-1]
        if target.startswith("/"):
            here = ""
    return here or "/"


def find_installation(
    program: str, args: Sequence[str], *, search_path: str, cwd: str, writable: Iterable[str]
) -> Installation:
    """Find what a program needs: `program` is absolute; `writable` are the real paths that it may write."""
    search = _FileSearch(search_path=search_path, writable=tuple(writable))
    search.add_program(program)
    named: dict[str, None] = {}
    script = _find_script(program, args, cwd)
    if script is not None:
        search.add_script(script)
    for arg in args:
        path = _find_named_path(arg, cwd)
        if path is not None and path != script and not is_wide(os.path.realpath(path)):
            named[path] = None
    found = search.files.keys()
    outermost = tuple(path for path in found if not is_beneath(path, found - {path}))
    return Installation(files=outermost, folders=tuple(search.folders), named=tuple(named))


def _find_script(program: str, args: Sequence[str], cwd: str) -> str | None:
    """Return the script that an interpreter is started with."""
    if not _INTERPRETERS.fullmatch(os.path.basename(program)):  # noqa: PTH119 - a text
        return None
    previous = ""
    for arg in args:
        if arg in _WITHOUT_SCRIPT:
            return None
        path = os.path.normpath(os.path.join(cwd, arg))  # noqa: PTH118 - texts
        if not arg.startswith("-") and previous not in _OPTIONS_WITH_FILE and os.path.isfile(path):  # noqa: PTH113 - a text
            return path
        previous = arg
    return None


def _find_named_path(arg: str, cwd: str) -> str | None:
    text = arg.partition("=")[2] if arg.startswith("-") else arg
    if not text.startswith(("/", "./", "../")) or "\0" in text:
        return None
    path = os.path.normpath(os.path.join(cwd, text))  # noqa: PTH118 - texts
    return path if os.path.exists(path) else None  # noqa: PTH110 - a text


class _FileSearch:
    """The search for the files of one program."""

    def __init__(self, *, search_path: str, writable: tuple[str, ...]) -> None:
        self.files: dict[str, None] = {}
        self.folders: dict[str, None] = {}
        self._search_path = search_path
        self._writable = writable

    def add_program(self, path: str, depth: int = 0) -> None:
        """Add a program with what it lies in, and the interpreter of a script."""
        real = self._resolve(path)
        if real is None or depth > _MAX_DEPTH:
            return
        has_place = [self._add_place(each) for each in dict.fromkeys((path, real))]
        interpreter = _read_shebang(real, self._search_path)
        if interpreter is None:
            return
        if not any(has_place):
            self.add_script(real)
        self.add_program(interpreter, depth + 1)

    def add_script(self, path: str) -> None:
        """Add a script, the folder it is in, and the packages of Node.js above it."""
        real = self._resolve(path)
        if real is None:
            return
        has_place = [self._add_place(each) for each in dict.fromkeys((path, real))]
        folder = os.path.dirname(real)  # noqa: PTH120 - a text
        if any(has_place) or is_wide(folder):
            return
        self.folders[folder] = None
        for above in _list_parents(real):
            if is_wide(above):
                return
            found = [f"{above}/{name}" for name in ("package.json", "node_modules")]
            self._add(*(each for each in found if os.path.exists(each)))  # noqa: PTH110 - a text

    def _resolve(self, path: str) -> str | None:
        try:
            return resolve_outside(path, self._writable)
        except OSError:
            return None

    def _add(self, *paths: str) -> None:
        for path in paths:
            if self._resolve(path) is not None and not is_beneath(path, SYSTEM_PATHS):
                self.files[path] = None

    def _add_place(self, file: str) -> bool:
        """Add a file and the environment, packages or prefix it is installed in; return whether there is one."""
        self._add(file)
        if is_beneath(file, SYSTEM_PATHS):
            return True
        for folder in _list_parents(file):
            if os.path.isfile(f"{folder}/pyvenv.cfg"):  # noqa: PTH113 - a text
                self._add_environment(folder)
                return True
        before, name, _ = file.partition("/node_modules/")
        if name:
            self._add(f"{before}/node_modules")
            return True
        folder = os.path.dirname(file)  # noqa: PTH120 - a text
        prefix, place = os.path.split(folder)
        if place == "shims" or (place in {"bin", "sbin"} and _is_prefix(prefix)):
            self._add(prefix)
            return True
        if place == "bin" and is_wide(prefix) and os.path.basename(prefix) == ".local":  # noqa: PTH119 - a text
            self._add(f"{prefix}/lib")  # `pip install --user`
            return True
        return False

    def _add_environment(self, folder: str) -> None:
        """Add a virtual environment, the Python it was made of, and the folders of editable packages."""
        if self._resolve(f"{folder}/pyvenv.cfg") is None:
            return
        self._add(folder)
        for line in _read_lines(f"{folder}/pyvenv.cfg"):
            key, _, value = line.partition("=")
            base = os.path.dirname(value.strip())  # noqa: PTH120 - a text
            if key.strip() == "home" and base.startswith("/") and not is_wide(base):
                self._add(base, os.path.realpath(base))
        for place in Path(folder).glob("lib/python*/site-packages/*.pth"):
            for line in _read_lines(str(place)):
                path = line.strip()
                if path.startswith("/") and not is_wide(os.path.realpath(path)):
                    self._add(path)


def _is_prefix(folder: str) -> bool:
    """Return True for the root of an installation, such as `~/.nvm/versions/node/v24` or `~/.cargo`."""
    if is_wide(folder):
        return False
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 - never raises
    parent, name = os.path.split(os.path.realpath(folder))
    return os.path.isdir(f"{folder}/lib") or (parent == home and name.startswith("."))  # noqa: PTH112 - a text


def _list_parents(path: str) -> Iterator[str]:
    folder = os.path.dirname(path)  # noqa: PTH120 - a text
    while folder not in {"", "/"}:
        yield folder
        folder = os.path.dirname(folder)  # noqa: PTH120 - a text


def _read_shebang(path: str, search_path: str) -> str | None:
    """Return the absolute path of the interpreter that a script names."""
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            line = file.read(_MAX_SHEBANG).split(b"\n")[0]
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    words = os.fsdecode(line[2:]).split()
    if words and os.path.basename(words[0]) == "env":  # noqa: PTH119 - a text
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        return shutil.which(words[0], path=search_path) if words else None
    return words[0] if words and words[0].startswith("/") else None


def _read_lines(path: str) -> list[str]:
    with suppress(OSError), open(path, "rb", opener=_open_without_waiting) as file:
        return file.read(_MAX_CONFIG_BYTES).decode("utf-8", "replace").splitlines()
    return []


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
