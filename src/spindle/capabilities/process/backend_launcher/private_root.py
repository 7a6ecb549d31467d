"""A private root directory for the command that contains only the granted paths, under their usual names.

Files that are not granted do not exist there, so programs skip them; Landlock alone answers "permission denied", which
some programs treat as a fatal error.
"""

import os
import stat
from errno import EACCES, EINVAL, ENOENT, ENOTDIR

from spindle.capabilities.process.backend_launcher import confine
from spindle.capabilities.process.backend_launcher.confine import NODEV, NOEXEC, NOSUID, READ_ONLY

TYPE_CHECKING = False  # pyright reads it as true; importing typing would cost more than all other imports together
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Files = dict[str, Any]
    """The `files` of the plan: readable and writable paths, devices, and aliases of them."""

_STREAMS = {"/dev/fd": "", "/dev/stdin": "/0", "/dev/stdout": "/1", "/dev/stderr": "/2"}
_MAX_LINKS = 40


def enter_private_root(root: str, files: "Files") -> list[str]:
    """Replace the root directory of this mount namespace; return the names of what that enforces.

    The caller must be the first process of a pid namespace and permitted to mount. `root` must be one of the writable
    paths, or within one.

    Raises:
        OSError: The kernel refuses, or all of "/" is granted. The old root stays in place then.
    """
    links: dict[str, str] = {}
    mounts = _choose_mounts(files, links)
    confine.make_mounts_private()
    trees = _clone(mounts, root)
    umask = os.umask(0o022)
    try:
        # Mounted over a folder that certainly exists; its content has been cloned already.
        confine.mount("tmpfs", root, "tmpfs", confine.MS_NOSUID | confine.MS_NODEV)
        os.chdir(root)
        try:
            has_own_proc = _fill(trees, links)
            for folder in (root, *files["places"]):
                _make_folder(folder, {""})  # the working directory, also if nothing of it was granted
            _hide(files["hidden"])
            confine.set_mount_attributes(confine.AT_FDCWD, ".", READ_ONLY)
            confine.pivot_root(".", ".")
        finally:
            # The old root, which pivot_root mounts on top of the new one; or, after a failure, the new one.
            confine.unmount(".")
    finally:
        for tree in trees.values():
            os.close(tree)
        os.chdir("/")
        os.umask(umask)
    # The shared /proc exposes files that were not granted, until Landlock forbids them.
    return ["root", "files", "proc"] if has_own_proc else ["root"]


def _choose_mounts(files: "Files", links: dict[str, str]) -> dict[str, int]:
    """Map each path to mount, parents first, to its attributes; add the symbolic links that lead there to `links`."""
    for alias in files["aliases"]:
        _resolve(alias, links)
    write = _outermost({_resolve(path, links) for path in (*files["write"], *files["write_only"])})
    read = {_resolve(path, links) for path in files["read"]}
    devices = {_resolve(path, links) for path in files["devices"]}
    chosen = dict.fromkeys((path for path in _outermost(read) if not _is_beneath(path, write)), READ_ONLY | NOSUID)
    chosen |= dict.fromkeys(write, NOSUID)
    chosen |= {path: NOSUID | NOEXEC for path in devices if not _is_beneath(path, chosen)}
    chosen |= dict.fromkeys((path for path in files["pins"] if path == _resolve(path, {})), NOSUID)
    if "/" in chosen:
        raise OSError(EINVAL, "all of / is granted")
    return {
        path: attributes if _is_beneath(path, ("/dev",)) else attributes | NODEV
        for path, attributes in sorted(chosen.items())
        if path and not _is_beneath(path, ("/proc",))  # /proc is mounted separately
    }


def _resolve(path: str, links: dict[str, str]) -> str:
    """Return the real path, or "" if it does not exist; add each symbolic link on the way to `links`."""
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
            target = os.readlink(f"{here}/{name}")  # noqa: PTH115 - importing pathlib would slow down the launcher
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
    """Return True if a path is one of these folders, or lies within one."""
    while path:
        if path in folders:
            return True
        path = path.rpartition("/")[0]
    return False


def _clone(mounts: dict[str, int], root: str) -> dict[str, int]:
    """Clone each path with the mounts below it; return a descriptor for each that exists and can be opened."""
    trees: dict[str, int] = {}
    try:
        for path, attributes in mounts.items():
            try:
                trees[path] = confine.clone_tree(path)
            except OSError as error:
                # A command cannot run without its root, so a failure there is an error.
                if error.errno not in {ENOENT, ENOTDIR, EACCES} or _is_beneath(root, (path,)):
                    raise
                continue
            # Attributes can only be added: those of the original mounts are locked in a user namespace.
            confine.set_mount_attributes(trees[path], "", attributes)
    except OSError:
        for tree in trees.values():
            os.close(tree)
        raise
    return trees


def _fill(trees: dict[str, int], links: dict[str, str]) -> bool:
    """Mount everything below the working directory; return True if /proc shows only the namespace's processes."""
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
        # In a container that masks parts of its /proc; the clone has the same parts masked.
        tree = confine.clone_tree("/proc")
        confine.set_mount_attributes(tree, "", READ_ONLY | NOSUID | NODEV | NOEXEC)
        confine.move_tree(tree, "proc")
        os.close(tree)
        return False
    return True


def _hide(paths: "Iterable[str]") -> None:
    """Mount an empty file or folder without permissions on each path below the working directory.

    Raises:
        OSError: The kernel refuses.
    """
    if not paths:
        return
    empty_file, empty_folder = ".spindle-file", ".spindle-folder"
    os.close(os.open(empty_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0))
    os.mkdir(empty_folder, 0)  # noqa: PTH102 - as above
    for path in paths:
        try:
            mode = os.lstat(path[1:]).st_mode
        except OSError as error:
            if error.errno in {ENOENT, ENOTDIR}:
                continue  # removed meanwhile
            raise
        if stat.S_ISLNK(mode):
            continue  # a mount would be on its target, which is hidden itself if it has to be
        tree = confine.clone_tree(empty_folder if stat.S_ISDIR(mode) else empty_file)
        try:
            confine.set_mount_attributes(tree, "", READ_ONLY | NOSUID | NODEV | NOEXEC)
            confine.move_tree(tree, path[1:])
        finally:
            os.close(tree)
    os.unlink(empty_file)  # noqa: PTH108 - as above
    os.rmdir(empty_folder)  # noqa: PTH106 - as above


def _make_mount_point(path: str, made: set[str], *, is_folder: bool) -> None:
    if is_folder:
        _make_folder(path, made)
        return
    _make_folder(path.rpartition("/")[0], made)
    try:  # noqa: SIM105 - importing contextlib would slow down the launcher
        os.close(os.open(path[1:], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    except OSError:
        pass  # it exists below an earlier mount; if not, the mount that follows raises the error


def _make_folder(path: str, made: set[str]) -> None:
    if path in made:
        return
    _make_folder(path.rpartition("/")[0], made)
    made.add(path)
    try:  # noqa: SIM105 - as above
        os.mkdir(path[1:])  # noqa: PTH102 - as above
    except OSError:
        pass  # as above
