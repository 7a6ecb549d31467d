"""The local code of a configuration: the files that decide what it runs, and the imports of those that were accepted.

The folders of `tools.python_path` are searched before those of installed packages, so that any file in them could take
the place of a module that is imported later, and bytecode beside an accepted file could take the place of its source.
"""

import ast
import glob
import hashlib
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from pydantic import ValidationError
from typing_extensions import override

from spindle.cli.config.schema import ConfigFile
from spindle.cli.config.schema_servers import ServerEntry
from spindle.cli.config.sources import expand_path, read_mcp_json
from spindle.errors import InvalidConfigError

_INSTALLED = {"site-packages", "dist-packages"}
_SUFFIXES = (*EXTENSION_SUFFIXES, ".py", ".pyc")
"""In the order in which Python looks for them."""
_MODULE_FLAG = re.compile(r"-[A-Za-z]*m")
_UNCHECKED = 0b01


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalCode:
    """The code that came with an accepted configuration."""

    folders: tuple[Path, ...] = ()
    """The folders and archives that the configuration adds to the module search path."""
    digests: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The SHA-256 of each accepted file by its path."""


def find_module_folders(file: ConfigFile, base: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the folders and archives that a configuration in the folder `base` adds to the module search path."""
    return [folder for each in file.tools.python_path if (folder := _expand(each, base, environ)) is not None]


def find_local_code(file: ConfigFile, base: Path, *, cwd: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the files that a configuration in the folder `base` imports, starts or reads servers and APIs from.

    Only files that come with the configuration count: modules found in `tools.python_path`, in the folder of the
    configuration or in the working folder, with every local module they import and all modules of their packages;
    archives in `tools.python_path`; scripts below the configuration's folder that a server's command or variables
    name; imported server files. Nothing is imported or executed.
    """
    folders = find_module_folders(file, base, environ) + _search_path_below({base, cwd})
    spots = (*file.tools.modules, *filter(None, [file.server.offers]), *file.engine.turns.values())
    named = [spot.partition(":")[0] for spot in spots]
    found = _find_modules(named, folders) | dict.fromkeys(filter(_is_file, folders))
    imported = find_imported_servers(file, base, environ)
    found |= dict.fromkeys(imported)
    found |= dict.fromkeys(_find_descriptions(file, base, environ))
    for entry in (*file.mcp.servers.values(), *(each for servers in imported.values() for each in servers.values())):
        if entry.enabled and entry.command is not None:
            found |= dict.fromkeys(_find_scripts(entry, base, cwd, environ))
    return sorted(found)


def _find_descriptions(file: ConfigFile, base: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the files of OpenAPI descriptions, which decide where requests are sent."""
    named = [entry.file for entry in file.openapi.servers.values() if entry.enabled and entry.file is not None]
    return [path for text in named if (path := _expand(text, base, environ)) is not None and _is_file(path)]


def find_imported_servers(
    file: ConfigFile, base: Path, environ: Mapping[str, str]
) -> dict[Path, dict[str, ServerEntry]]:
    """Return the servers of each file that `mcp.import` names; of a file that cannot be read, none."""
    found: dict[Path, dict[str, ServerEntry]] = {}
    for text in file.mcp.imports:
        path = _expand(text, base, environ)
        if path is not None:
            found[path] = {}
            with suppress(InvalidConfigError, ValidationError):  # the loader reports it
                servers = read_mcp_json(path).servers
                found[path] = {name: ServerEntry.model_validate(given) for name, given in servers.items()}
    return found


def _search_path_below(folders: Iterable[Path]) -> list[Path]:
    """Return the entries of the module search path that lie in one of the folders, as with `python -m spindle`."""
    entries = [Path(each).absolute() for each in sys.path]
    local = [entry for entry in entries if entry.is_dir() and _INSTALLED.isdisjoint(entry.parts)]
    return [entry for entry in local if any(_is_below(entry, folder) for folder in folders)]


def _find_modules(named: Sequence[str], folders: Sequence[Path]) -> dict[Path, None]:
    """Return the files of modules in the folders, and of the modules in the folders that they import."""
    found: dict[Path, None] = {}
    waiting, seen = list(named), set(named)
    while waiting:
        name = waiting.pop()
        path = _find_module(name, folders)
        if path is None:
            continue
        found |= dict.fromkeys([path, *_find_unchecked_bytecode(path)])
        if "." not in name and path.name.partition(".")[0] == "__init__":
            # A package imports its parts by names that a reader of the source cannot tell, such as those of plugins.
            found |= dict.fromkeys(_list_package(path.parent))
        for other in _imported_names(path, name):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return found


def _find_module(name: str, folders: Sequence[Path]) -> Path | None:
    parts = name.split(".")
    for folder in folders:
        place = folder.joinpath(*parts)
        for candidate in (place / "__init__", place):
            for suffix in _SUFFIXES:
                path = Path(f"{candidate}{suffix}")
                if _is_file(path):
                    return path
    return None


def _list_package(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            if name.endswith(_SUFFIXES):
                path = Path(place, name)
                yield path
                yield from _find_unchecked_bytecode(path)


def _find_unchecked_bytecode(path: Path) -> Iterator[Path]:
    """Yield cached bytecode that Python would run without a look at the source; Python writes none by itself."""
    for cached in path.parent.glob(f"__pycache__/{glob.escape(path.stem)}.*.pyc"):
        with suppress(OSError), cached.open("rb") as opened:
            if int.from_bytes(opened.read(8)[4:], "little") == _UNCHECKED:
                yield cached


def _imported_names(path: Path, name: str) -> Iterator[str]:
    """Yield the names of all modules that a source file may import, and of its packages."""
    parts = name.split(".")
    yield from (".".join(parts[:length]) for length in range(1, len(parts)))
    if path.suffix != ".py":
        return
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):  # the last one: nested too deeply
        return  # importing it fails; its content is hashed all the same
    package = parts if path.stem == "__init__" else parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_packages(alias.name)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*above, *(node.module.split(".") if node.module else ())])
            yield from _with_packages(origin)
            yield from (f"{origin}.{alias.name}" if origin else alias.name for alias in node.names)


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1) if name)


def _find_scripts(entry: ServerEntry, base: Path, cwd: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files below `base` that a server's command line or variables name, and the modules of `-m NAME`."""
    folder = cwd if entry.cwd is None else _expand(entry.cwd, base, environ) or base
    words = [entry.command or "", *entry.args]
    search = [folder, *_split_paths(entry.env.get("PYTHONPATH", ""), folder, environ)]
    for before, word in zip(["", *words], words, strict=False):
        if _MODULE_FLAG.fullmatch(before):
            yield from _find_modules([word, f"{word}.__main__"], search)
        elif word.startswith("-m"):
            yield from _find_modules([word[2:], f"{word[2:]}.__main__"], search)
    for text in dict.fromkeys(part for word in (*words, *entry.env.values()) for part in _split_word(word)):
        path = _expand(text, folder, environ)
        if path is not None and _is_below(path, base) and _is_file(path):
            yield path
            if path.suffix == ".py":
                yield from _find_modules([path.stem], [path.parent, *search[1:]])


def _split_word(word: str) -> Iterator[str]:
    """Yield the parts of a word that may be paths: as in `--name=path`, `a:b` and the command line of a shell."""
    parts = [word]
    with suppress(ValueError):  # a quotation mark that is not closed
        parts += shlex.split(word, comments=False)
    for part in parts:
        yield from filter(None, (part, part.partition("=")[2], *part.split(os.pathsep)))


def _split_paths(text: str, folder: Path, environ: Mapping[str, str]) -> list[Path]:
    found = [_expand(part, folder, environ) for part in text.split(os.pathsep) if part]
    return [path for path in found if path is not None]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or has a NUL character
        return False


def _expand(text: str, folder: Path, environ: Mapping[str, str]) -> Path | None:
    try:
        return expand_path(text, folder, environ)
    except (InvalidConfigError, RuntimeError, ValueError):
        return None  # the loader reports it


def _is_below(path: Path, folder: Path) -> bool:
    return Path(os.path.normpath(path)).is_relative_to(os.path.normpath(folder))


def guard_imports(code: LocalCode | None) -> None:
    """Import from the folders of local code only what was accepted; this replaces the guard of another configuration.

    Without local code, as for a configuration that the user chose, nothing is guarded.
    """
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, AcceptedCodeFinder)]
    if code is not None and code.digests:
        place = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
        sys.meta_path.insert(place, AcceptedCodeFinder(code))


class AcceptedCodeFinder:
    """A finder of modules that searches as `PathFinder` does and refuses local files that were not accepted."""

    def __init__(self, code: LocalCode) -> None:
        self._code = code

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the place of a module.

        Raises:
            ImportError: It is a local file that was not accepted, or has changed since.
        """
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin is None or not spec.has_location:
            return spec
        origin = Path(spec.origin)
        accepted = next((each for each in (origin, *origin.parents) if str(each) in self._code.digests), None)
        if accepted is None:
            if not any(origin.is_relative_to(folder) for folder in self._code.folders):
                return spec
            why = "was not accepted with the configuration: no import statement of its modules names it"
            raise ImportError(f"{origin} {why}; write one, or move the file", name=name, path=spec.origin)
        digest = self._code.digests[str(accepted)]
        if isinstance(spec.loader, SourceFileLoader):
            spec.loader, spec.cached = _AcceptedSource(name, spec.origin, digest), None
        else:
            _check_digest(accepted.read_bytes(), digest, str(accepted))
        return spec


class _AcceptedSource(SourceFileLoader):
    """A loader of source that neither reads nor writes bytecode."""

    def __init__(self, name: str, path: str, digest: str) -> None:
        super().__init__(name, path)
        self._digest = digest

    @override
    def get_code(self, fullname: str) -> CodeType | None:
        data = self.get_data(self.path)
        _check_digest(data, self._digest, self.path)
        return self.source_to_code(data, self.path)


def _check_digest(data: bytes, digest: str, path: str) -> None:
    if hashlib.sha256(data).hexdigest() != digest:
        raise ImportError(f"{path} changed since it was trusted; look at it with `spindle trust`", path=path)
