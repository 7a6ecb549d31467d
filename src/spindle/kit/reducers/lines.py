"""Shared helpers of the reducers: parse command lines, split and truncate output, and drop noise lines."""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

MAX_COMMAND_CHARS = 10_000
"""A longer line is a script rather than a command."""

_OPERATORS = "();<>|&\n"
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_HARMLESS_REDIRECTIONS = (["2", ">&", "1"], ["2", ">", "/dev/null"])


def split_command(command: str) -> list[str] | None:
    """Split a line with one command into words, without leading assignments and `sudo`; `None` for any other line.

    A `cd` before the command is allowed: it prints nothing.
    """
    words = _words(command)
    while words and len(words) > 2 and words[0] == "cd" and words[2] in ("&&", ";", "\n"):
        words = words[3:]
    if words is None or any(set(word) <= set(_OPERATORS) for word in words):
        return None
    return _without_prefixes(words)


def get_program(words: list[str]) -> str:
    """Return the name of the program without its directory."""
    return PurePosixPath(words[0]).name if words else ""


def drop_options(words: list[str]) -> list[str]:
    """Return the words that are not options."""
    return [word for word in words if not word.startswith(("-", "+"))]


def _words(command: str) -> list[str] | None:
    # The output of a command substitution cannot be known from the line.
    if len(command) > MAX_COMMAND_CHARS or "`" in command or "$(" in command:
        return None
    lexer = shlex.shlex(command.strip(), posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        words = list(lexer)
    except ValueError:  # an unclosed quotation mark
        return None
    for harmless in _HARMLESS_REDIRECTIONS:
        if words[-3:] == harmless:
            words = words[:-3]
    return words


def _without_prefixes(words: list[str]) -> list[str]:
    rest = list(words)
    while rest and (_ASSIGNMENT.match(rest[0]) or rest[0] in ("sudo", "env")):
        wrapper = rest.pop(0)
        while wrapper == "sudo" and rest and rest[0] in ("-E", "-n", "-H"):
            rest.pop(0)
    return rest


_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[()][0-9A-B])")


def split_shown_lines(text: str) -> list[str]:
    """Split into lines without color codes and without text that a carriage return overwrote."""
    lines = split_lines(text)
    return [_clean_line(line) for line in lines] if "\x1b" in text or "\r" in text else lines


def split_lines(text: str) -> list[str]:
    """Split into lines; a final terminator does not start another line."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def _clean_line(line: str) -> str:
    return _ESCAPES.sub("", line.rstrip("\r").rpartition("\r")[2])


MAX_CHARS = 8192
HEAD_LINES = 40
TAIL_LINES = 20


def truncate_middle(text: str, *, failed: bool = False) -> str:
    """Return `text`, or its first 40 and last 20 lines if it is long; 20 and 40 for a failed command."""
    if len(text) <= MAX_CHARS:
        return text
    head_lines, tail_lines = (TAIL_LINES, HEAD_LINES) if failed else (HEAD_LINES, TAIL_LINES)
    lines = split_lines(text)
    if len(lines) <= head_lines + tail_lines:
        return _pick_shorter("\n".join(_cut_lines(lines, failed=failed)), text)
    head, middle, tail = lines[:head_lines], lines[head_lines:-tail_lines], lines[-tail_lines:]
    kept = _cut_lines([*head, *tail], failed=failed)
    left_out = sum(map(len, middle)) + len(middle)
    marker = (
        f"... [left out: lines {head_lines + 1}-{head_lines + len(middle)} of {len(lines)}, {left_out} characters] ..."
    )
    return _pick_shorter("\n".join([*kept[:head_lines], marker, *kept[head_lines:]]), text)


def _cut_lines(lines: list[str], *, failed: bool) -> list[str]:
    """Truncate the longest lines until all fit into `MAX_CHARS`."""
    if sum(map(len, lines)) + len(lines) <= MAX_CHARS:
        return lines
    cap = _fair_cap([len(line) for line in lines], MAX_CHARS - len(lines))
    return [_cut(line, cap, failed=failed) for line in lines]


def _fair_cap(lengths: list[int], room: int) -> int:
    """Return the length limit of a line, with the room that short lines leave given to long ones."""
    left = len(lengths)
    for length in sorted(lengths):
        if length * left > room:
            return room // left
        room, left = room - length, left - 1
    return max(lengths, default=0)


def _cut(line: str, cap: int, *, failed: bool) -> str:
    if len(line) <= cap:
        return line
    tail = cap * 2 // 3 if failed else cap // 3
    head = cap - tail
    marker = f" ... [left out: {len(line) - cap} characters] ... "
    return _pick_shorter(f"{line[:head]}{marker}{line[len(line) - tail :]}", line)


def _pick_shorter(text: str, original: str) -> str:
    return text if len(text) < len(original) else original


@dataclass(frozen=True, slots=True)
class NoiseFilter:
    """A filter that finds the dispensable lines in a program's output."""

    find: Callable[[list[str]], set[int] | None]
    """Returns the indexes of those lines; `None` if the output is not recognized."""
    description: str
    """Describes them in the note that replaces them."""
    vital: re.Pattern[str] | None = None
    """If the rest is still too long, keep only its ends and lines that match this; `None` keeps all of it."""


def drop_noise(text: str, noise: NoiseFilter, *, failed: bool) -> str | None:
    """Return `text` without its noise lines, never longer; `None` if it is not recognized."""
    lines = split_shown_lines(text)
    dropped = noise.find(lines)
    if dropped is None:
        return None
    if noise.vital:
        dropped = _limit_dropped(lines, dropped, noise.vital, failed=failed)
    if not dropped:
        return text
    kept = [line for number, line in enumerate(lines) if number not in dropped and not _is_gap(lines, number, dropped)]
    count = "1 line" if len(dropped) == 1 else f"{len(dropped)} lines"
    shorter = "\n".join([*kept, f"[left out: {count} of {noise.description}]"])
    return shorter if len(shorter) < len(text) else text


def find_matching(lines: list[str], pattern: re.Pattern[str]) -> set[int]:
    """Return the indexes of the lines that start with `pattern`."""
    return {number for number, line in enumerate(lines) if pattern.match(line)}


def _limit_dropped(lines: list[str], dropped: set[int], vital: re.Pattern[str], *, failed: bool) -> set[int]:
    if failed:  # the last lines often contain the reason, in an unknown format
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
    """Return whether the line is empty and only separated a dropped line from the next one."""
    return not lines[number] and (number == 0 or number - 1 in dropped)
