"""The long form of `git status`, the one made for people."""

import re

from spindle.kit.terminal_output.git_entries import Entry, Status

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
"""What the counts say anyway."""


def read_long(lines: list[str]) -> Status | None:
    """A status in long form; `None` when it is none, or a line of its lists is not understood."""
    first = next((line for line in lines if line and not line.startswith(("warning: ", "hint: "))), "")
    if not first.startswith(_OPENINGS):
        return None
    found: dict[str, Entry] = {}
    notes: list[str] = []
    section, is_listing = "", False
    for line in lines:
        if line.startswith("\t"):
            entry = _entry(section, line[1:])
            if entry is None:
                return None
            key = _key(entry.path)
            found[key] = _merged(found.get(key), entry)
            is_listing = True
        elif not line:
            # Before its paths a section may have an empty line; after them it is over.
            section = "" if is_listing else section
        elif line in _SECTIONS:
            section, is_listing = line, False
        elif line.startswith(("diff --git ", "fatal: ", "error: ")):
            return None
        elif not line.startswith(("  (", *_IMPLIED)):
            section = ""
            notes.append(line)
    return Status(list(found.values()), notes)


def _entry(section: str, text: str) -> Entry | None:
    if section in _UNLABELLED:
        # Two blanks may be a column's gap: then nobody can tell how many names there are.
        return None if "  " in text else Entry(_UNLABELLED[section], text)
    labelled = _LABELLED.fullmatch(text)
    if labelled is None:
        return None
    if section == _UNMERGED:
        code = _CONFLICT_LABELS.get(labelled[1])
        return Entry(code, labelled[2]) if code else None
    code = _LABELS.get(labelled[1])
    if code is None or section not in {_STAGED, _NOT_STAGED}:
        return None
    return Entry(f"{code} " if section == _STAGED else f" {code}", labelled[2])


def _key(path: str) -> str:
    return _SUBMODULE_STATE.sub("", path).rpartition(" -> ")[2]


def _merged(before: Entry | None, now: Entry) -> Entry:
    """One entry for a path that is listed as staged and again as not staged."""
    if before is None or before.xy[1] != " " or now.xy[0] != " ":
        return now
    return Entry(before.xy[0] + now.xy[1], before.path)
