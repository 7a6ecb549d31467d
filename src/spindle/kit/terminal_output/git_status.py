"""`git status` in a few lines: true counts, the first paths, and git's own words about branch and state."""

from collections.abc import Iterator

from spindle.kit.terminal_output.command import plain_words, program
from spindle.kit.terminal_output.git_entries import CONFLICTS, Entry, Status, read_entries
from spindle.kit.terminal_output.git_long import read_long
from spindle.kit.terminal_output.screen import shown_lines

FIRST_PATHS = 5
NEXT_PATHS = 45

_LEGEND = "(XY codes: M=modified, A=added, D=deleted, R=renamed, ??=untracked; X is the index, Y the work tree)"
_KINDS = {
    "M": "modified",
    "m": "modified",
    "A": "added",
    "?": "untracked",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "T": "type changed",
    "!": "ignored",
}
_WITH_VALUE = {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env"}


def is_git_status(command: str) -> bool:
    """Whether the whole line is a `git status`; beside another command its summary would hide what that one said."""
    words = plain_words(command)
    if not words or program(words) != "git":
        return False
    rest = iter(words[1:])
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            return word == "status"
    return False


def summarise_git_status(text: str) -> str | None:
    """A summary shorter than `text`; `None` when there is none, or a line of it is not understood."""
    shown = shown_lines(text)
    status = read_entries("\n".join(shown)) or read_long(shown)
    if status is None:
        return None
    return next((summary for summary in _summaries(status) if len(summary) < len(text)), None)


def _summaries(status: Status) -> Iterator[str]:
    """From the fullest to the shortest."""
    notes = [note for note in status.notes if not note.startswith("# branch.oid ")]
    entries = sorted(status.entries, key=lambda entry: entry.xy not in CONFLICTS)
    counted = [_counted(entries)] if entries or not _is_said_clean(notes) else []
    for names, legend in ((FIRST_PATHS + NEXT_PATHS, [_LEGEND]), (FIRST_PATHS + NEXT_PATHS, []), (FIRST_PATHS, [])):
        yield "\n".join([*counted, *notes, *_listed(entries, names), *(legend if entries else [])])
    yield "\n".join([*counted, *notes])


def _is_said_clean(notes: list[str]) -> bool:
    return any(note.startswith("nothing to commit") for note in notes)


def _counted(entries: list[Entry]) -> str:
    counts: dict[str, int] = {"in conflict": 0} | dict.fromkeys(_KINDS.values(), 0)
    for entry in entries:
        for kind in _kinds(entry.xy):
            counts[kind] += 1
    counts["staged"] = sum(entry.xy[0] not in " ?!" and entry.xy not in CONFLICTS for entry in entries)
    parts = [f"{count} {kind}" for kind, count in counts.items() if count]
    # Never "clean": an option or a setting may have hidden what there is.
    return f"git status: {', '.join(parts) or 'no changes listed'}."


def _kinds(xy: str) -> set[str]:
    if xy in CONFLICTS:
        return {"in conflict"}
    if xy[1] == "?" and xy[0] != "?":  # a submodule with untracked content
        return {"modified"} | {_KINDS[code] for code in xy[0] if code in _KINDS}
    return {_KINDS[code] for code in xy if code in _KINDS}


def _listed(entries: list[Entry], most: int) -> list[str]:
    named = [f"{entry.xy} {entry.path}" for entry in entries[:most]]
    groups = (("First", named[:FIRST_PATHS]), ("Next", named[FIRST_PATHS:]))
    lines = [f"{word} {len(group)}: {', '.join(group)}" for word, group in groups if group]
    return [*lines, f"(and {len(entries) - most} more)"] if len(entries) > most else lines
