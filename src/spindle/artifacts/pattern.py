"""What `grep` understands: RE2, a dialect whose cost grows with the text and never explodes. No I/O."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

from spindle.errors import ArtifactQueryError

DIALECT = (
    "RE2 regular expressions, matched line by line in linear time: no look-around, no back-references; "
    r"\w, \d and \b know ASCII only, use \pL and \p{Greek} for other scripts; "
    "flags: i (ignore case), m, s, u (no effect)"
)

MAX_MEMORY_BYTES = 8 << 20

_FLAGS = frozenset("imsu")
_META = frozenset("\\.+*?()|[]{}^$")
# These speak of the text's ends, or switch `^` and `$` to them: true only when each line is looked at alone.
_SPEAKS_OF_THE_WHOLE = re.compile(r"\\[AzC]|\(\?[a-zA-Z]*-")


class _Found(Protocol):
    def start(self) -> int: ...


class _Regex(Protocol):
    def search(self, text: bytes, pos: int | None = None, endpos: int | None = None) -> _Found | None: ...


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern; finds in UTF-8 bytes."""

    needle: bytes
    """The pattern's own bytes."""
    regex: _Regex | None
    """`None` for plain text, which is looked for as it is: faster, and bad UTF-8 round it does no harm."""
    is_line_by_line: bool
    """The pattern is only right when it sees one line at a time."""

    @property
    def is_literal(self) -> bool:
        """Nothing in the pattern has a meaning of its own."""
        return self.regex is None

    def find(self, data: bytes, start: int, end: int) -> int | None:
        """Give where the first match in `data[start:end]` begins; what stands round it counts for anchors."""
        if self.regex is None:
            place = data.find(self.needle, start, end)
            return None if place < 0 else place
        found = self.regex.search(data, start, end)
        return None if found is None else found.start()


def compile_pattern(text: str, flags: str = "") -> Pattern:
    """Compile a pattern that matches inside lines.

    Raises:
        ArtifactQueryError: The pattern or a flag is not of the dialect.
    """
    if not isinstance(cast("object", text), str):
        kind = type(text).__name__
        raise ArtifactQueryError(f"a pattern is text, got {kind}. The dialect: {DIALECT}", field="pattern")
    _check_flags(flags)
    try:
        needle = text.encode()
    except UnicodeEncodeError as error:
        raise ArtifactQueryError(
            f"the pattern has a lone surrogate at character {error.start}; write plain Unicode text", field="pattern"
        ) from error
    # Bad bytes are shown as U+FFFD, which are not the bytes of a U+FFFD; and a newline is in no line.
    if "i" not in flags and not _META.intersection(text) and "\n" not in text and "\ufffd" not in text:
        return Pattern(needle=needle, regex=None, is_line_by_line=False)
    source = f"(?{'mi' if 'i' in flags else 'm'}){text}"
    is_line_by_line = _SPEAKS_OF_THE_WHOLE.search(text) is not None
    return Pattern(needle=needle, regex=_compile(source, text), is_line_by_line=is_line_by_line)


def _check_flags(flags: str) -> None:
    if not isinstance(cast("object", flags), str):
        raise ArtifactQueryError(f"flags are text such as 'i', got {type(flags).__name__}", field="flags")
    unknown = sorted(set(flags) - _FLAGS)
    if unknown:
        raise ArtifactQueryError(
            f"unknown flag {''.join(unknown)!r}; use any of i (ignore case), m, s, u, or none", field="flags"
        )


def _compile(source: str, text: str) -> _Regex:
    import re2  # noqa: PLC0415 - 20 ms that only a search should pay

    module = cast("Any", re2)
    options = module.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY_BYTES
    options.never_capture = True
    options.never_nl = True  # what is found stays inside its line
    compile_source = cast("Callable[[str, Any], _Regex]", module.compile)
    try:
        return compile_source(source, options)
    except module.error as error:
        raise ArtifactQueryError(_explain(source, text, error), field="pattern") from error
    finally:
        # Its cache would keep 128 patterns of up to 8 MiB each, chosen by a model.
        module.purge()


def _explain(source: str, text: str, error: Exception) -> str:
    reason = error.args[0] if error.args else "it cannot be compiled"
    if isinstance(reason, bytes):
        reason = reason.decode("utf-8", "replace")
    reason = str(reason).replace(source, text)[:200]
    shown = text if len(text) <= 200 else f"{text[:200]}…"
    return f"the pattern {shown!r} is not understood: {reason}. The dialect: {DIALECT}"
