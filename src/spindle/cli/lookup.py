"""Finding a tool by the name somebody typed."""

import difflib
from collections.abc import Iterable

from spindle.cli.exits import NOT_FOUND
from spindle.cli.output import complain


def unknown(kind: str, name: str, known: Iterable[str], otherwise: str) -> int:
    """Say that there is no such thing and what may have been meant; gives the exit code."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else otherwise
    complain(f"there is no {kind} {name!r}", hint)
    return NOT_FOUND
