"""The machine-readable and short forms of `git status`, read strictly: an unknown line means that nothing is known."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

CONFLICTS = frozenset({"DD", "AU", "UD", "UA", "DU", "AA", "UU"})


@dataclass(frozen=True, slots=True)
class Entry:
    """A path, and what the index (X) and the work tree (Y) say of it; a space is no change."""

    xy: str
    path: str


@dataclass(slots=True)
class Status:
    """All that a `git status` said."""

    entries: list[Entry] = field(default_factory=list[Entry])
    notes: list[str] = field(default_factory=list[str])
    """Its own lines about branch, state and warnings, word for word."""


_SHORT = re.compile(r"([ MTADRCU?!][ MTADRCUm?!]) (.+)")
_TRIMMED = re.compile(r"[MTADRCm] [^ ]")
"""A first line whose leading blank was trimmed away."""
_V2_HEADER = re.compile(r"# (?:branch\.[a-z]+|stash) ")
_V2_FIELDS = {"1": 7, "2": 8, "u": 9}
"""How many fields stand between a line's kind and its path."""
_V2_CODES = re.compile(r"[.MTADRCU]{2}")
_REMARK = re.compile(r"(?:warning|hint): ")


def read_entries(text: str) -> Status | None:
    """A status in short form, porcelain v1 or v2, with lines or with NULs; `None` when any part is something else."""
    with_nul = "\0" in text
    records = text.removesuffix("\0").split("\0") if with_nul else text.removesuffix("\n").split("\n")
    if with_nul and "\n" in text:  # a remark of the other stream may hide in a record
        return None
    return _read_v2(records, with_nul=with_nul) or _read_v1(records, with_nul=with_nul)


def _read_v1(records: list[str], *, with_nul: bool) -> Status | None:
    status, pending = Status(), iter(_untrimmed(records))
    for record in pending:
        found = _SHORT.fullmatch(record)
        if record.startswith("## ") or _REMARK.match(record):
            status.notes.append(record)
        elif found is not None and _is_code(found[1]):
            status.entries.append(Entry(found[1], found[2]))
            if with_nul and not {"R", "C"}.isdisjoint(found[1]):
                next(pending, None)  # the name it had before
        else:
            return None
    return status


def _untrimmed(records: list[str]) -> Iterator[str]:
    for number, record in enumerate(records):
        yield f" {record}" if number == 0 and _TRIMMED.match(record) else record


def _is_code(xy: str) -> bool:
    if "U" in xy:
        return xy in CONFLICTS
    return xy in {"??", "!!"} or (xy != "  " and xy[0] not in "?!" and xy[1] != "!")


def _read_v2(records: list[str], *, with_nul: bool) -> Status | None:
    status, pending = Status(), iter(records)
    for record in pending:
        kind, _, rest = record.partition(" ")
        if _V2_HEADER.match(record) or _REMARK.match(record):
            status.notes.append(record)
        elif kind in {"?", "!"} and rest:
            status.entries.append(Entry(kind * 2, rest))
        else:
            entry = _v2_entry(kind, rest)
            if entry is None:
                return None
            status.entries.append(entry)
            if with_nul and kind == "2":
                next(pending, None)  # the name it had before
    return status


def _v2_entry(kind: str, rest: str) -> Entry | None:
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
    return Entry(xy, f"{before} -> {path}" if before else path)
