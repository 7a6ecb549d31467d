"""Other names of withheld files: hard links, which no path reveals."""

import os
import stat
from collections.abc import Iterable, Iterator

MAX_EXAMINED = 2_000
"""How many files in withheld folders are examined; credential folders have few."""


def find_linked_files(paths: Iterable[str]) -> frozenset[tuple[int, int]]:
    """Return device and inode of each file among these paths, or in these folders, that has more than one name."""
    found: set[tuple[int, int]] = set()
    examined = 0
    for path in _walk(paths):
        examined += 1
        if examined > MAX_EXAMINED:
            break
        try:
            info = os.stat(path)  # noqa: PTH116 - a text
        except OSError:
            continue
        if stat.S_ISREG(info.st_mode) and info.st_nlink > 1:
            found.add((info.st_dev, info.st_ino))
    return frozenset(found)


def find_links(folder: str, files: frozenset[tuple[int, int]]) -> Iterator[str]:
    """Yield the paths in a folder, without those below it, that are names of these files."""
    inodes = {inode for _, inode in files}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.inode() in inodes and not entry.is_symlink():
                    info = entry.stat(follow_symlinks=False)
                    if (info.st_dev, info.st_ino) in files:
                        yield entry.path
    except OSError:  # not a folder, or not readable, also for a command
        return


def _walk(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        yield path
        for place, _, names in os.walk(path):
            yield from (os.path.join(place, name) for name in names)  # noqa: PTH118 - texts
