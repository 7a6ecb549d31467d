"""The difference of two texts by lines, in bounded time, with unchanged parts folded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

LineKind: TypeAlias = Literal["same", "removed", "added", "folded"]

MAX_LINES: Final = 20_000
"""Lines of each text that are compared."""
MAX_CHANGES: Final = 400
"""Texts with more changed lines are not aligned: what differs is shown as removed and added as a whole."""
MAX_SHOWN: Final = 2_000
"""Lines that are returned."""
MAX_LINE_CHARS: Final = 1_000
_CONTEXT: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffLine:
    """One line of a difference."""

    kind: LineKind
    text: str
    """Shortened if the line is very long."""
    left: int | None = None
    """Its number in the left text, counted from 1."""
    right: int | None = None
    count: int = 1
    """How many lines a folded part has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextDiff:
    """The difference of two texts."""

    lines: tuple[DiffLine, ...]
    is_same: bool
    is_cut: bool
    """Whether the texts have more lines than were compared or returned."""
    is_aligned: bool
    """Whether all changes were found; otherwise the texts differ too much."""


def compare_texts(left: str, right: str) -> TextDiff:
    """Compare two texts by lines."""
    one, two = left.split("\n"), right.split("\n")
    is_cut = len(one) > MAX_LINES or len(two) > MAX_LINES
    steps, is_aligned = align(one[:MAX_LINES], two[:MAX_LINES])
    lines = _fold(_number(steps))
    return TextDiff(
        lines=tuple(lines[:MAX_SHOWN]),
        is_same=left == right,
        is_cut=is_cut or len(lines) > MAX_SHOWN,
        is_aligned=is_aligned,
    )


Step: TypeAlias = tuple[LineKind, str]


def align(left: Sequence[str], right: Sequence[str]) -> tuple[list[Step], bool]:
    """Return the lines of both texts as steps from one to the other, and whether there are as few as possible."""
    start = 0
    while start < min(len(left), len(right)) and left[start] == right[start]:
        start += 1
    end = 0
    while end < min(len(left), len(right)) - start and left[-1 - end] == right[-1 - end]:
        end += 1
    one, two = left[start : len(left) - end], right[start : len(right) - end]
    middle = _find_shortest(one, two)
    is_aligned = middle is not None
    if middle is None:
        middle = list[Step](("removed", line) for line in one)
        middle += list[Step](("added", line) for line in two)
    before: list[Step] = [("same", line) for line in left[:start]]
    after: list[Step] = [("same", line) for line in left[len(left) - end :]]
    return [*before, *middle, *after], is_aligned


def _find_shortest(one: Sequence[str], two: Sequence[str]) -> list[Step] | None:
    """Find the shortest script with Myers' greedy algorithm; `None` if it has too many changes."""
    reach = {1: 0}
    trail: list[dict[int, int]] = []
    for changes in range(min(len(one) + len(two), MAX_CHANGES) + 1):
        trail.append(reach)
        reach = dict(reach)
        for diagonal in range(-changes, changes + 1, 2):
            is_down = diagonal == -changes or (
                diagonal != changes and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1)
            )
            at = reach.get(diagonal + 1, 0) if is_down else reach.get(diagonal - 1, 0) + 1
            while at < len(one) and at - diagonal < len(two) and one[at] == two[at - diagonal]:
                at += 1
            reach[diagonal] = at
            if at >= len(one) and at - diagonal >= len(two):
                return _trace_back(one, two, trail)
    return None


def _trace_back(one: Sequence[str], two: Sequence[str], trail: Sequence[dict[int, int]]) -> list[Step]:
    steps: list[Step] = []
    x, y = len(one), len(two)
    for changes in range(len(trail) - 1, -1, -1):
        reach, diagonal = trail[changes], x - y
        is_down = diagonal == -changes or (
            diagonal != changes and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1)
        )
        before = diagonal + 1 if is_down else diagonal - 1
        old_x = reach.get(before, 0)
        old_y = old_x - before
        while x > max(old_x, 0) and y > max(old_y, 0) and one[x - 1] == two[y - 1] and (x, y) != (old_x, old_y):
            x, y = x - 1, y - 1
            steps.append(("same", one[x]))
        if changes:
            if is_down:
                y -= 1
                steps.append(("added", two[y]))
            else:
                x -= 1
                steps.append(("removed", one[x]))
    return steps[::-1]


def _number(steps: Sequence[Step]) -> list[DiffLine]:
    lines: list[DiffLine] = []
    left = right = 0
    for kind, text in steps:
        left, right = left + (kind != "added"), right + (kind != "removed")
        shown = text if len(text) <= MAX_LINE_CHARS else f"{text[: MAX_LINE_CHARS - 1]}…"
        lines.append(
            DiffLine(
                kind=kind,
                text=shown,
                left=None if kind == "added" else left,
                right=None if kind == "removed" else right,
            )
        )
    return lines


def _fold(lines: Sequence[DiffLine]) -> list[DiffLine]:
    """Replace long unchanged parts by one line, except for some lines around changes."""
    kept = [False] * len(lines)
    for place, line in enumerate(lines):
        if line.kind != "same":
            first, last = max(0, place - _CONTEXT), min(len(lines), place + _CONTEXT + 1)
            kept[first:last] = [True] * (last - first)
    folded: list[DiffLine] = []
    for line, is_kept in zip(lines, kept, strict=True):
        if is_kept:
            folded.append(line)
        elif folded and folded[-1].kind == "folded":
            folded[-1] = DiffLine(kind="folded", text="", count=folded[-1].count + 1)
        else:
            folded.append(DiffLine(kind="folded", text=""))
    return folded
