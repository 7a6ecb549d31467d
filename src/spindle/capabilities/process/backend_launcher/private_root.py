"""A root of the command's own: the granted paths under their usual names, and nothing else. Used by the launcher.

Files that were not granted are absent, so programs skip them; Landlock alone answers "permission denied", which some
programs take for a broken system.
"""

import os
import stat
from errno import EACCES, EINVAL, ENOENT, ENOTDIR

from spindle.capabilities.process.backend_launcher import confine
from spindle.capabilities.process.backend_launcher.confine import NODEV, NOEXEC, NOSUID, READ_ONLY

TYPE_CHECKING = False  # pyright takes it for true; typing would cost more than the rest of the imports together
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Files = dict[str, Any]
    """The `files` of the plan: the paths to read, to write, and to use as devices, and other names of them."""

_STREAMS = {"/dev/fd": "", "/dev/stdin": "/0", "/dev/stdout": "/1", "/dev/stderr": "/2"}
_MAX_LINKS = 40


def enter_private_root(root: str, files: "Files") -> list[str]:
    """Replace the root directory of this mount namespace; return what that enforces.

    The caller is the first process of a pid namespace and may mount. `root` must be among the paths to write, or in
    one of them.

    Raises:
        OSError: The kernel refuses, or all of "/" was granted. The root is the old one then.
    """
    links: dict[str, str] = {}
    mounts = _choose_mounts(files, links)
    confine.make_mounts_private()
    trees = _clone(mounts, root)
    umask = os.umask(0o022)
    try:
        # On top of a folder that is surely there; what it holds has been cloned already.
        confine.mount("tmpfs", root, "tmpfs", confine.MS_NOSUID | confine.MS_NODEV)
        os.chdir(root)
        try:
            has_own_proc = _fill(trees, links)
            confine.set_mount_attributes(confine.HERE, ".", READ_ONLY)
            confine.pivot_root(".", ".")
        finally:
            # Here is the old root, which pivot_root puts on top of the new one; or, after a failure, the new one.
            confine.unmount(".")
    finally:
        for tree in trees.values():
            os.close(tree)
        os.chdir("/")
        os.umask(umask)
    # With the /proc of all processes there are files in sight that nobody granted, until Landlock forbids them.
    return ["root", "files", "proc"] if has_own_proc else ["root"]


def _choose_mounts(files: "Files", links: dict[str, str]) -> dict[str, int]:
    """Map each path to mount, parents first, to its attributes; add the links on the way to them to `links`."""
    for alias in files["aliases"]:
        _resolve(alias, links)
    write = _outermost({_resolve(path, links) for path in files["write"]})
    read = {_resolve(path, links) for path in files["read"]}
    devices = {_resolve(path, links) for path in files["devices"]}
    chosen = dict.fromkeys((path for path in _outermost(read) if not _is_beneath(path, write)), READ_ONLY | NOSUID)
    chosen |= dict.fromkeys(write, NOSUID)
    chosen |= {path: NOSUID | NOEXEC for path in devices if not _is_beneath(path, chosen)}
    if "/" in chosen:
        raise OSError(EINVAL, "all of / was granted")
    return {
        path: attributes if _is_beneath(path, ("/dev",)) else attributes | NODEV
        for path, attributes in sorted(chosen.items())
        if path and not _is_beneath(path, ("/proc",))  # which is mounted anew
    }


def _resolve(path: str, links: dict[str, str]) -> str:
    """Return the real path, or "" if there is none; note each symbolic link that leads to it."""
    here, names = "", path.split("/")[::-1]
    followed = 0
    while names:
        name = names.pop()
        if name in {"", "."}:
            continue
        if name == "..":
            here = here.rpartition("/")[0]
            continue
        try:
            target = os.readlink(f"{here}/{name}")  # noqa: PTH115 - the launcher does not pay for importing pathlib
        except OSError as error:
            if error.errno != EINVAL:
                return ""
            here = f"{here}/{name}"
            continue
        followed += 1
        if followed > _MAX_LINKS:
            return ""
        links[f"{here}/{name}"] = target
        names += target.split("/")[::-1]
        if target.startswith("/"):
            here = ""
    return here or "/"


def _outermost(paths: set[str]) -> set[str]:
    return {path for path in paths if not _is_beneath(path.rpartition("/")[0], paths)}


def _is_beneath(path: str, folders: "Iterable[str]") -> bool:
    """Tell whether a path is one of these, or lies in one of them."""
    while path:
        if path in folders:
            return True
        path = path.rpartition("/")[0]
    return False


def _clone(mounts: dict[str, int], root: str) -> dict[str, int]:
    """Clone each path with the mounts below it; return a descriptor for each that exists and may be opened."""
    trees: dict[str, int] = {}
    try:
        for path, attributes in mounts.items():
            try:
                trees[path] = confine.clone_tree(path)
            except OSError as error:
                # Without its root no command runs: rather than absent, it is refused.
                if error.errno not in {ENOENT, ENOTDIR, EACCES} or _is_beneath(root, (path,)):
                    raise
                continue
            # Attributes are only added: those of the original mounts are locked in a user namespace.
            confine.set_mount_attributes(trees[path], "", attributes)
    except OSError:
        for tree in trees.values():
            os.close(tree)
        raise
    return trees


def _fill(trees: dict[str, int], links: dict[str, str]) -> bool:
    """Mount everything below the working directory; tell whether /proc shows the own processes only."""
    made = {""}
    for path, tree in trees.items():
        _make_mount_point(path, made, is_folder=stat.S_ISDIR(os.fstat(tree).st_mode))
        confine.move_tree(tree, path[1:])
    for path, target in links.items():
        if not _is_beneath(path, trees) and not _is_beneath(path, ("/proc",)):
            _make_folder(path.rpartition("/")[0], made)
            os.symlink(target, path[1:])  # noqa: PTH211 - as above
    if "/dev" not in trees:
        _make_folder("/dev", made)
        for path, stream in _STREAMS.items():
            os.symlink(f"/proc/self/fd{stream}", path[1:])  # noqa: PTH211 - as above
    _make_folder("/proc", made)
    try:
        confine.mount(
            "proc", "proc", "proc", confine.MS_NOSUID | confine.MS_NODEV | confine.MS_NOEXEC | confine.MS_READ_ONLY
        )
    except OSError:
        # Inside a container that masks parts of its own /proc: then the same parts are masked here.
        tree = confine.clone_tree("/proc")
        confine.set_mount_attributes(tree, "", READ_ONLY | NOSUID | NODEV | NOEXEC)
        confine.move_tree(tree, "proc")
        os.close(tree)
        return False
    return True


def _make_mount_point(path: str, made: set[str], *, is_folder: bool) -> None:
    if is_folder:
        _make_folder(path, made)
        return
    _make_folder(path.rpartition("/")[0], made)
    try:  # noqa: SIM105 - the launcher does not pay for importing contextlib
        os.close(os.open(path[1:], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    except OSError:
        pass  # below what is mounted already, where it exists; otherwise the mount itself says what is wrong


def _make_folder(path: str, made: set[str]) -> None:
    if path in made:
        return
    _make_folder(path.rpartition("/")[0], made)
    made.add(path)
    try:  # noqa: SIM105 - as above
        os.mkdir(path[1:])  # noqa: PTH102 - as above
    except OSError:
        pass  # as above
