"""The command line of bubblewrap: a view of the file system that holds the granted paths and nothing else."""

import os
import shutil

from spindle.capabilities.backends.view import View
from spindle.capabilities.process import SEARCH_PATH


def program() -> str | None:
    """Find bubblewrap in the places of the system, never through the host's own PATH."""
    return shutil.which("bwrap", path=SEARCH_PATH)


def command_line(bwrap: str, view: View, interpreter_paths: list[str]) -> list[str]:
    """Give what is put before the launcher's own command line; the launcher runs inside, so it must be seen there."""
    words = [bwrap, "--unshare-all", "--cap-drop", "ALL"]
    if view.network:
        words.append("--share-net")
    words += ["--proc", "/proc", "--dev", "/dev"]
    read, write = [*view.read, *interpreter_paths], view.write
    # Parents first: what is mounted later covers what is below it.
    for path in sorted({*read, *write}, key=lambda path: (path.count(os.sep), path)):
        words += ["--bind-try" if path in write else "--ro-bind-try", path, path]
    # The rest of the view is an empty folder in memory, which is not for writing either.
    return [*words, "--remount-ro", "/", "--"]
