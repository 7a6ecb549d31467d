"""What a shell line runs: one plain command, or more than can be told."""

import re
import shlex
from pathlib import PurePosixPath

MAX_COMMAND_CHARS = 10_000
"""A longer line is a script, not a command anybody recognises."""

_OPERATORS = "();<>|&\n"
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_HARMLESS_REDIRECTIONS = (["2", ">&", "1"], ["2", ">", "/dev/null"])


def plain_words(command: str) -> list[str] | None:
    """The words of a line that is exactly one command, without the assignments and `sudo` before it; else `None`."""
    words = _words(command)
    if words is None or any(set(word) <= set(_OPERATORS) for word in words):
        return None
    return _without_prefixes(words)


def words_after_cd(command: str) -> list[str] | None:
    """Like `plain_words`, for a line that may first change into a folder: that prints nothing."""
    words = _words(command)
    while words and len(words) > 2 and words[0] == "cd" and words[2] in ("&&", ";", "\n"):
        words = words[3:]
    if words is None or any(set(word) <= set(_OPERATORS) for word in words):
        return None
    return _without_prefixes(words)


def program(words: list[str]) -> str:
    """The name of the program, without its folder."""
    return PurePosixPath(words[0]).name if words else ""


def bare(words: list[str]) -> list[str]:
    """The words that are no options."""
    return [word for word in words if not word.startswith(("-", "+"))]


def _words(command: str) -> list[str] | None:
    # What a substitution prints cannot be known from the line.
    if len(command) > MAX_COMMAND_CHARS or "`" in command or "$(" in command:
        return None
    lexer = shlex.shlex(command.strip(), posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        words = list(lexer)
    except ValueError:  # a quotation that never ends
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
