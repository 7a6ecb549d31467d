"""Poison in texts: instructions to the model that a definition has no business to give.

The patterns run on RE2, so that the time is linear in the text. They are matched against every reading of a text, each
on one line, without regard to case.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, cast

from spindle.mcp.lint.languages import OTHER_LANGUAGES
from spindle.mcp.lint.phrases import ENGLISH, PRIVATE_FILE
from spindle.mcp.lint.readings import find_readings

RULE_IDS: Final = tuple(ENGLISH)
_MAX_MEMORY: Final = 64 << 20


class PoisonMatch(NamedTuple):
    """A pattern found in a text."""

    rule: str
    how: str
    """How the text had to be read."""
    text: str
    """The reading."""
    start: int
    end: int


@cache
def _compile(rule: str) -> Any:
    """Return all patterns of a rule as one RE2 pattern."""
    return _compile_regex("|".join(f"(?:{regex})" for regex in (*ENGLISH[rule], *OTHER_LANGUAGES.get(rule, ()))))


@cache
def _compile_regex(regex: str) -> Any:
    import re2  # noqa: PLC0415 - takes 20 ms, which only the linter should cost

    options = re2.Options()
    options.case_sensitive = False
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    return cast("Any", re2).compile(regex, options)


def find_poison(text: str) -> Iterator[PoisonMatch]:
    """Yield the first match of each rule in a text, in the first reading that has one."""
    left = list(RULE_IDS)
    for reading in find_readings(text):
        for rule in tuple(left):
            found = _compile(rule).search(reading.text)
            if found is not None:
                left.remove(rule)
                yield PoisonMatch(rule, reading.how, reading.text, found.start(), found.end())
        if not left:
            return


def find_private_file(text: str) -> tuple[int, int] | None:
    """Return where a text first names a file that holds secrets."""
    found = _compile_regex(PRIVATE_FILE).search(text)
    return None if found is None else (found.start(), found.end())


def is_suspicious(texts: Sequence[str]) -> bool:
    """Return whether any of several texts may match: one search over all of them is cheaper than one for each."""
    return next(find_poison("\n".join(texts)), None) is not None
