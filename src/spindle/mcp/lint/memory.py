"""The memory of a linter that runs again and again: a definition that has not changed is not checked again."""

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from spindle.errors import SpindleError
from spindle.mcp.lint.subjects import Subject

MAX_RESULTS: Final = 40_000
"""Beyond this many, the memory is cleared: a server that changes its tools all the time must not fill it."""

T = TypeVar("T")


class LintMemory:
    """What the checks of single definitions have returned, by the content of the definition."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], Any] = {}

    def recall(self, check: str, subject: Subject, compute: Callable[[], T]) -> T:
        """Return what a check returned for the same definition, or compute it."""
        key = check, _identify(subject)
        if key not in self._known:
            if len(self._known) >= MAX_RESULTS:
                self._known.clear()
            self._known[key] = compute()
        return cast("T", self._known[key])


def _identify(subject: Subject) -> bytes:
    try:
        fingerprint = "" if subject.tool is None else subject.tool.fingerprint
    except SpindleError:  # it cannot be described at all
        fingerprint = ""
    name = None if subject.tool is None else subject.tool.name
    content = [subject.kind, subject.server, name, fingerprint, subject.raw]
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=repr).encode("utf-8", "replace")).digest()
