"""`${NAME}` and `~` in the values that may have them."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from spindle.errors import InvalidConfigError

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ANY = re.compile(r"\$\{[^}]*\}?")


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Put the environment's values in the place of `${NAME}`, `${NAME:-otherwise}` and `${env:NAME}`.

    Raises:
        InvalidConfigError: There is no such variable, and nothing is said for that case.
    """

    def value_of(found: re.Match[str]) -> str:
        name, otherwise = found[1], found[2]
        value = environ.get(name)
        if value is None and otherwise is None:
            raise InvalidConfigError(f"the environment has no {name}; set it, or write ${{{name}:-otherwise}}")
        return otherwise if value is None else value

    pieces: list[str] = []
    place = 0
    for found in _VARIABLE.finditer(text):
        pieces += [_plain(text[place : found.start()]), value_of(found)]
        place = found.end()
    return "".join([*pieces, _plain(text[place:])])


def expand_path(text: str, base: Path, environ: Mapping[str, str]) -> Path:
    """A path of a file: expanded, `~` too, and taken from the file's own folder when it is relative."""
    return Path(os.path.normpath(base / Path(expand(text, environ)).expanduser()))


def _plain(text: str) -> str:
    if (wrong := _ANY.search(text)) is not None:
        raise InvalidConfigError(f"{wrong[0]} is not understood; write ${{NAME}} or ${{NAME:-otherwise}}")
    return text
