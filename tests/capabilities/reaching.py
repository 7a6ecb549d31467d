"""A root with what a tool may reach, and beside it what it may not."""

import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from spindle.capabilities.declare import CallScope, FileReach
from spindle.capabilities.files.backend import FilesBackend, FilesHandle

SECRET = b"the secret that is out of reach"


def handle(
    backend: FilesBackend, *, read: Iterable[str] = (".",), write: Iterable[str] = (".",), session: str = "s1"
) -> FilesHandle:
    """What a tool with that reach is given."""
    return backend.open(FileReach(read=read, write=write), CallScope(tool="t", session_id=session))


def everything(root: Path) -> FilesHandle:
    """A handle that reaches all of `root`."""
    return handle(FilesBackend(root))


def trapped(folder: Path) -> Path:
    """Make a root full of ways out, next to a secret; gives the root.

    Every way out ends in `folder`: when a test fails, what it reads, writes and removes is bait, never the machine's.
    """
    outside, root = folder / "outside", folder / "root"
    for place in (outside / "deep", outside / "etc", root / "data" / "sub", root / "out", root / "private"):
        place.mkdir(parents=True, exist_ok=True)
    (outside / "etc" / "passwd").write_bytes(SECRET)
    for place in (outside / "secret.txt", outside / "deep" / "secret.txt", root / "private" / "secret.txt"):
        place.write_bytes(SECRET)
    (root / "data" / "a.txt").write_bytes(b"inside")
    (root / "data" / "sub" / "b.txt").write_bytes(b"inside")
    for at in (root / "data", root / "out"):
        (at / "link").symlink_to(outside)
        (at / "up").symlink_to("..")
        (at / "secret").symlink_to(outside / "secret.txt")
        (at / "relative").symlink_to("../../outside/secret.txt")
        (at / "private").symlink_to("../private")
        (at / "inner").symlink_to("sub" if at.name == "data" else ".")
        (at / "dangling").symlink_to(outside / "new.txt")
        (at / "loop").symlink_to("loop")
        (at / "chain").symlink_to("link")
        (at / "root").symlink_to(outside)
        (at / "cwd").symlink_to("/proc/self/cwd")  # its target depends on the process that opens it
        os.link(outside / "secret.txt", at / "hard")
        os.mkfifo(at / "fifo")
        bound_socket(at / "socket")
    return root


def bound_socket(path: Path) -> None:
    """Leave a socket's file at `path`; it may be too long a path for a socket, so it is bound from its folder."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def contents(folder: Path) -> dict[str, bytes]:
    """Every plain file below `folder`, and every folder as an empty one."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
        if not path.is_symlink() and (path.is_file() or path.is_dir())
    }


def names_in(folder: Path) -> list[str]:
    """What is in a folder, by name."""
    return sorted(path.name for path in folder.iterdir())


def open_below(folder: Path) -> list[str]:
    """What this process holds open of `folder`."""
    held: list[str] = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            held.append(str(descriptor.readlink()))
    return sorted(path for path in held if path.startswith(str(folder)))
