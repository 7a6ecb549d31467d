"""Leave out the lines that say nothing, and say how many there were."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from spindle.kit.terminal_output.excerpt import HEAD_LINES, MAX_CHARS, TAIL_LINES
from spindle.kit.terminal_output.screen import shown_lines


@dataclass(frozen=True, slots=True)
class Noise:
    """How to find the lines of a program's output that can go."""

    find: Callable[[list[str]], set[int] | None]
    """The numbers of those lines; `None` when the output is not that program's."""
    words: str
    """What they are, for the line that says so."""
    vital: re.Pattern[str] | None = None
    """When the rest is still long, only its ends and the lines with this stay; `None` keeps all of it."""


def without_noise(text: str, noise: Noise, *, failed: bool) -> str | None:
    """`text` without those lines, never longer; `None` when it is not recognised."""
    lines = shown_lines(text)
    dropped = noise.find(lines)
    if dropped is None:
        return None
    if noise.vital:
        dropped = _weighed(lines, dropped, noise.vital, failed=failed)
    if not dropped:
        return text
    kept = [line for number, line in enumerate(lines) if number not in dropped and not _is_gap(lines, number, dropped)]
    count = "1 line" if len(dropped) == 1 else f"{len(dropped)} lines"
    shorter = "\n".join([*kept, f"[left out: {count} of {noise.words}]"])
    return shorter if len(shorter) < len(text) else text


def matching(lines: list[str], pattern: re.Pattern[str]) -> set[int]:
    """The numbers of the lines that begin with `pattern`."""
    return {number for number, line in enumerate(lines) if pattern.match(line)}


def _weighed(lines: list[str], dropped: set[int], vital: re.Pattern[str], *, failed: bool) -> set[int]:
    if failed:  # the reason often stands in the last lines, in words nobody foresaw
        dropped = {number for number in dropped if number < len(lines) - TAIL_LINES}
    if _length(lines, dropped) <= MAX_CHARS:
        return dropped
    return dropped | _dispensable(lines, dropped, vital)


def _length(lines: list[str], dropped: set[int]) -> int:
    return sum(len(line) + 1 for number, line in enumerate(lines) if number not in dropped)


def _dispensable(lines: list[str], dropped: set[int], vital: re.Pattern[str]) -> set[int]:
    left = [number for number in range(len(lines)) if number not in dropped]
    return {number for number in left[HEAD_LINES:-TAIL_LINES] if not vital.search(lines[number])}


def _is_gap(lines: list[str], number: int, dropped: set[int]) -> bool:
    """Whether the line is empty, and only parted what is left out from what follows."""
    return not lines[number] and (number == 0 or number - 1 in dropped)
