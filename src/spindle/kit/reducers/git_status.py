"""Summarizes the output of `git status`: counts, the first paths, and git's lines about branch and state."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from spindle.kit.reducers.lines import get_program, split_command, split_shown_lines

CONFLICTS = frozenset({"DD", "AU", "UD", "UA", "DU", "AA", "UU"})


@dataclass(frozen=True, slots=True)
class StatusEntry:
    """A path and its state in the index (X) and the work tree (Y); a space means unchanged."""

    xy: str
    path: str


@dataclass(slots=True)
class GitStatus:
    """The parsed output of `git status`."""

    entries: list[StatusEntry] = field(default_factory=list[StatusEntry])
    notes: list[str] = field(default_factory=list[str])
    """Lines about branch, state and warnings, verbatim."""


_SHORT = re.compile(r"([ MTADRCU?!][ MTADRCUm?!]) (.+)")
_TRIMMED = re.compile(r"[MTADRCm] [^ ]")
"""A first line whose leading space was trimmed."""
_V2_HEADER = re.compile(r"# (?:branch\.[a-z]+|stash) ")
_V2_FIELDS = {"1": 7, "2": 8, "u": 9}
"""Number of fields between a line's kind and its path."""
_V2_CODES = re.compile(r"[.MTADRCU]{2}")
_REMARK = re.compile(r"(?:warning|hint): ")


def parse_short(text: str) -> GitStatus | None:
    """Parse the short form or porcelain v1 or v2, with newlines or NULs; `None` if any part is not recognized."""
    with_nul = "\0" in text
    records = text.removesuffix("\0").split("\0") if with_nul else text.removesuffix("\n").split("\n")
    if with_nul and "\n" in text:  # a message of the other stream may be inside a record
        return None
    return _read_v2(records, with_nul=with_nul) or _read_v1(records, with_nul=with_nul)


def _read_v1(records: list[str], *, with_nul: bool) -> GitStatus | None:
    status, pending = GitStatus(), iter(_restore_trimmed(records))
    for record in pending:
        found = _SHORT.fullmatch(record)
        if record.startswith("## ") or _REMARK.match(record):
            status.notes.append(record)
        elif found is not None and _is_code(found[1]):
            status.entries.append(StatusEntry(found[1], found[2]))
            if with_nul and not {"R", "C"}.isdisjoint(found[1]):
                next(pending, None)  # the previous name
        else:
            return None
    return status


def _restore_trimmed(records: list[str]) -> Iterator[str]:
    for number, record in enumerate(records):
        yield f" {record}" if number == 0 and _TRIMMED.match(record) else record


def _is_code(xy: str) -> bool:
    if "U" in xy:
        return xy in CONFLICTS
    return xy in {"??", "!!"} or (xy != "  " and xy[0] not in "?!" and xy[1] != "!")


def _read_v2(records: list[str], *, with_nul: bool) -> GitStatus | None:
    status, pending = GitStatus(), iter(records)
    for record in pending:
        kind, _, rest = record.partition(" ")
        if _V2_HEADER.match(record) or _REMARK.match(record):
            status.notes.append(record)
        elif kind in {"?", "!"} and rest:
            status.entries.append(StatusEntry(kind * 2, rest))
        else:
            entry = _v2_entry(kind, rest)
            if entry is None:
                return None
            status.entries.append(entry)
            if with_nul and kind == "2":
                next(pending, None)  # the previous name
    return status


def _v2_entry(kind: str, rest: str) -> StatusEntry | None:
    count = _V2_FIELDS.get(kind)
    if count is None:
        return None
    fields = rest.split(" ", count)
    if len(fields) <= count or not _V2_CODES.fullmatch(fields[0]):
        return None
    xy = fields[0].replace(".", " ")
    if not _is_code(xy):
        return None
    path, _, before = fields[-1].partition("\t") if kind == "2" else (fields[-1], "", "")
    return StatusEntry(xy, f"{before} -> {path}" if before else path)


_OPENINGS = (
    "On branch ",
    "HEAD detached ",
    "Not currently on any branch.",
    "interactive rebase in progress",
    "rebase in progress",
)
_STAGED, _NOT_STAGED, _UNMERGED = "Changes to be committed:", "Changes not staged for commit:", "Unmerged paths:"
_UNLABELLED = {"Untracked files:": "??", "Ignored files:": "!!"}
_SECTIONS = {_STAGED, _NOT_STAGED, _UNMERGED, *_UNLABELLED}

_LABELS = {"new file": "A", "modified": "M", "deleted": "D", "renamed": "R", "copied": "C", "typechange": "T"}
_CONFLICT_LABELS = {
    "both deleted": "DD",
    "added by us": "AU",
    "deleted by them": "UD",
    "added by them": "UA",
    "deleted by us": "DU",
    "both added": "AA",
    "both modified": "UU",
}
_LABELLED = re.compile(r"([a-z ]+): +(.+)")
_SUBMODULE_STATE = re.compile(r" \((?:new commits|modified content|untracked content)[a-z ,]*\)$")
_IMPLIED = ("no changes added to commit", "nothing added to commit but untracked files present")
"""Lines that repeat what the counts show."""


def parse_long(lines: list[str]) -> GitStatus | None:
    """Parse the long form; return `None` if any line of its lists is not recognized."""
    first = next((line for line in lines if line and not line.startswith(("warning: ", "hint: "))), "")
    if not first.startswith(_OPENINGS):
        return None
    found: dict[str, StatusEntry] = {}
    notes: list[str] = []
    section, is_listing = "", False
    for line in lines:
        if line.startswith("\t"):
            entry = _entry(section, line[1:])
            if entry is None:
                return None
            key = _key(entry.path)
            found[key] = _merge(found.get(key), entry)
            is_listing = True
        elif not line:
            # An empty line may precede a section's paths; after them it ends the section.
            section = "" if is_listing else section
        elif line in _SECTIONS:
            section, is_listing = line, False
        elif line.startswith(("diff --git ", "fatal: ", "error: ")):
            return None
        elif not line.startswith(("  (", *_IMPLIED)):
            section = ""
            notes.append(line)
    return GitStatus(list(found.values()), notes)


def _entry(section: str, text: str) -> StatusEntry | None:
    if section in _UNLABELLED:
        # Two spaces may separate columns, so the number of names is ambiguous.
        return None if "  " in text else StatusEntry(_UNLABELLED[section], text)
    labelled = _LABELLED.fullmatch(text)
    if labelled is None:
        return None
    if section == _UNMERGED:
        code = _CONFLICT_LABELS.get(labelled[1])
        return StatusEntry(code, labelled[2]) if code else None
    code = _LABELS.get(labelled[1])
    if code is None or section not in {_STAGED, _NOT_STAGED}:
        return None
    return StatusEntry(f"{code} " if section == _STAGED else f" {code}", labelled[2])


def _key(path: str) -> str:
    return _SUBMODULE_STATE.sub("", path).rpartition(" -> ")[2]


def _merge(before: StatusEntry | None, now: StatusEntry) -> StatusEntry:
    """Merge the entries of a path that is listed as both staged and not staged."""
    if before is None or before.xy[1] != " " or now.xy[0] != " ":
        return now
    return StatusEntry(before.xy[0] + now.xy[1], before.path)


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
    """Return whether the line is only `git status`; with another command, a summary would hide that one's output."""
    words = split_command(command)
    if not words or get_program(words) != "git":
        return False
    rest = iter(words[1:])
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            return word == "status"
    return False


def summarise_git_status(text: str) -> str | None:
    """Return a summary shorter than `text`, or `None` if that is impossible or a line is not recognized."""
    shown = split_shown_lines(text)
    status = parse_short("\n".join(shown)) or parse_long(shown)
    if status is None:
        return None
    return next((summary for summary in _summaries(status) if len(summary) < len(text)), None)


def _summaries(status: GitStatus) -> Iterator[str]:
    """Yield summaries from the longest to the shortest."""
    notes = [note for note in status.notes if not note.startswith("# branch.oid ")]
    entries = sorted(status.entries, key=lambda entry: entry.xy not in CONFLICTS)
    counted = [_format_counts(entries)] if entries or not _is_reported_clean(notes) else []
    for names, legend in ((FIRST_PATHS + NEXT_PATHS, [_LEGEND]), (FIRST_PATHS + NEXT_PATHS, []), (FIRST_PATHS, [])):
        yield "\n".join([*counted, *notes, *_format_paths(entries, names), *(legend if entries else [])])
    yield "\n".join([*counted, *notes])


def _is_reported_clean(notes: list[str]) -> bool:
    return any(note.startswith("nothing to commit") for note in notes)


def _format_counts(entries: list[StatusEntry]) -> str:
    counts: dict[str, int] = {"in conflict": 0} | dict.fromkeys(_KINDS.values(), 0)
    for entry in entries:
        for kind in _kinds(entry.xy):
            counts[kind] += 1
    counts["staged"] = sum(entry.xy[0] not in " ?!" and entry.xy not in CONFLICTS for entry in entries)
    parts = [f"{count} {kind}" for kind, count in counts.items() if count]
    # Never "clean": an option or a setting may have hidden changes.
    return f"git status: {', '.join(parts) or 'no changes listed'}."


def _kinds(xy: str) -> set[str]:
    if xy in CONFLICTS:
        return {"in conflict"}
    if xy[1] == "?" and xy[0] != "?":  # a submodule with untracked content
        return {"modified"} | {_KINDS[code] for code in xy[0] if code in _KINDS}
    return {_KINDS[code] for code in xy if code in _KINDS}


def _format_paths(entries: list[StatusEntry], most: int) -> list[str]:
    named = [f"{entry.xy} {entry.path}" for entry in entries[:most]]
    groups = (("First", named[:FIRST_PATHS]), ("Next", named[FIRST_PATHS:]))
    lines = [f"{word} {len(group)}: {', '.join(group)}" for word, group in groups if group]
    return [*lines, f"(and {len(entries) - most} more)"] if len(entries) > most else lines
