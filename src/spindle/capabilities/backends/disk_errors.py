"""What goes wrong on the disk, told in our words; the place of the root is never told."""

import errno
from collections.abc import Generator
from contextlib import contextmanager

from spindle.capabilities.files import Place
from spindle.errors import FileAccessError, FileMissingError

_REASONS: dict[int, tuple[str, str]] = {
    errno.ENOTDIR: ("not_a_folder", "a part of the path is no folder"),
    errno.EISDIR: ("not_a_file", "it is a folder, not a file"),
    errno.ENOTEMPTY: ("not_empty", "the folder is not empty; remove what is in it first"),
    errno.EACCES: ("denied", "the operating system does not permit it"),
    errno.EPERM: ("denied", "the operating system does not permit it"),
    errno.EROFS: ("denied", "it is on a disk that cannot be written"),
    errno.ETXTBSY: ("denied", "it is a program that is running"),
    errno.ENOSPC: ("full", "the disk is full"),
    errno.EDQUOT: ("full", "the quota of the disk is used up"),
    errno.EFBIG: ("full", "it is larger than the disk takes"),
    errno.ENAMETOOLONG: ("bad_name", "a name in it is longer than the disk takes"),
    errno.EILSEQ: ("bad_name", "the disk does not take such a name"),
    errno.EINVAL: ("bad_name", "the disk does not take such a name"),
}
_LINKED = {errno.ELOOP, errno.EMLINK}  # what O_NOFOLLOW says of a symbolic link, here and elsewhere


@contextmanager
def told(place: Place) -> Generator[None]:
    """Turn a failure of the operating system into ours.

    Raises:
        PathNotReachableError: The path turned into a link, a device or a socket while it was being opened.
        FileMissingError: Nothing is there.
        FileAccessError: Something else is wrong with it.
    """
    try:
        yield
    except FileMissingError:
        raise
    except FileNotFoundError as error:
        raise FileMissingError(f"{place.shown} does not exist", path=place.given) from error
    except UnicodeEncodeError as error:
        raise not_possible(place, "bad_name", "the disk does not take such a name") from error
    except OSError as error:
        if error.errno in _LINKED:
            raise place.refused("it is a symbolic link; links are never followed") from error
        if error.errno == errno.ENXIO:
            raise place.refused("it is not a plain file or folder") from error
        reason, why = _REASONS.get(error.errno or 0, ("io", f"the disk failed ({error.strerror})"))
        raise not_possible(place, reason, why) from error


def not_possible(place: Place, reason: str, why: str) -> FileAccessError:
    """Make the error that says why a file in reach cannot be used as asked."""
    return FileAccessError(f"{place.shown}: {why}", path=place.given, reason=reason)
