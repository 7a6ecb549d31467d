"""What media may be called: file names and MIME types that are safe to show and to store, and ids in order of time."""

import re
import secrets
import time
import unicodedata
from typing import Final

MAX_FILENAME_CHARS: Final = 256
UNKNOWN_MIME_TYPE: Final = "application/octet-stream"

_WORD: Final = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
_MIME_TYPE: Final = re.compile(rf"({_WORD})/({_WORD})", re.ASCII)
_FORBIDDEN: Final = frozenset('<>:"/\\|?*')
# Letters and marks that show nothing: their categories do not give them away.
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_UNSHOWN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])\s*(?:\.|$)", re.IGNORECASE)


def safe_filename(name: str) -> str:
    """Make of `name` one that no shell, file system, page or prompt reads as anything but a name.

    Goes: `<>:"/\\|?*` and what looks like them, control, direction and invisible characters, leading dots, dashes and
    tildes, trailing dots. A name that a system reserves gets a `_` in front. At most 256 characters, ending kept.
    """
    shown = "".join(map(_shown, unicodedata.normalize("NFC", name)))
    trimmed = _trimmed(unicodedata.normalize("NFC", shown))
    if _RESERVED.match(trimmed):
        trimmed = f"_{trimmed}"
    return _capped(trimmed) or "file"


def safe_mime_type(mime_type: str) -> str:
    """Give the bare `type/subtype` in small letters, without parameters, or `application/octet-stream`."""
    bare = mime_type.partition(";")[0].strip(" \t").lower()
    return bare if _MIME_TYPE.fullmatch(bare) else UNKNOWN_MIME_TYPE


def new_id() -> str:
    """Make a UUID of version 7: later ones sort behind earlier ones."""
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    fraction = rest * 4096 // 1_000_000  # the twelve bits after the version refine the time
    number = milliseconds << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | secrets.randbits(62)
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _shown(character: str) -> str:
    category = unicodedata.category(character)
    if category in _UNSHOWN or _INVISIBLE.match(character):
        return ""
    if category == "Zs":
        return " "
    # A full-width slash is a slash to a system that folds widths.
    return "" if _FORBIDDEN.intersection(unicodedata.normalize("NFKC", character)) else character


def _trimmed(name: str) -> str:
    return name.lstrip(" .-~").rstrip(" .")


def _capped(name: str) -> str:
    if len(name) <= MAX_FILENAME_CHARS:
        return name
    stem, dot, ending = name.rpartition(".")
    if not stem or len(ending) > 16:
        return _trimmed(name[:MAX_FILENAME_CHARS])
    return stem[: MAX_FILENAME_CHARS - len(ending) - 1].rstrip(" .") + dot + ending
