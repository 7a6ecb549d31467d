"""Checks of names across servers: look-alikes, near misses, same names, and references to tools of other servers."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from spindle.mcp.lint.confusables import build_skeleton, fold_name
from spindle.mcp.lint.findings import Finding, quote, show_name
from spindle.mcp.lint.rules import report
from spindle.mcp.lint.subjects import MAX_TEXT_CHARS, Subject

WELL_KNOWN: Final = (
    *("read_file", "write_file", "edit_file", "list_directory", "create_directory", "move_file", "search_files"),
    *("run_command", "execute_command", "run_shell", "web_search", "web_fetch", "fetch_url", "http_request"),
    *("send_email", "send_message", "search_repositories", "create_issue", "create_pull_request", "get_file_contents"),
    *("git_commit", "git_push", "git_status", "execute_sql", "run_query", "browser_navigate", "browser_click"),
    *("create_entities", "sequentialthinking", "resolve_library_id", "calculate", "get_current_time"),
)
"""Names that are used by many servers, and worth to be imitated."""

_MIN_NEAR_CHARS: Final = 6
_MAX_NAME_CHARS: Final = 100
_MAX_SHOWN: Final = 3
_WORD: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
# A match begins where a run of letters begins, and nothing is tried twice: a long text takes linear time.
_IDENTIFIER: Final = re.compile(
    r"(?<![A-Za-z0-9])[0-9]*+([A-Za-z][A-Za-z0-9]*+(?:[_-]++[A-Za-z0-9]++)++)|(?<![a-z])([a-z]++(?:[A-Z][a-z0-9]++)++)"
)


def check_names(subjects: Sequence[Subject]) -> Iterator[Finding]:
    """Yield the findings about names of different servers; tools that run here count as one server."""
    named = [each for each in subjects if each.name and each.kind == "tool"]
    # The first to have a name is in the right: servers are linted in the order of the configuration.
    yield from _check_groups(named)
    yield from _check_near(named)
    yield from _check_references(named)


def _check_groups(named: Sequence[Subject]) -> Iterator[Finding]:
    by_skeleton: dict[str, list[Subject]] = defaultdict(list)
    for each in named:
        by_skeleton[build_skeleton(fold_name(each.name[:_MAX_NAME_CHARS]))].append(each)
    for group in by_skeleton.values():
        for number, later in enumerate(group):
            earlier = next((each for each in group[:number] if each.server != later.server), None)
            if earlier is not None:
                yield _compare(earlier, later)


def _compare(earlier: Subject, later: Subject) -> Finding:
    other = f"{show_name(earlier.name)} of {_describe_server(earlier)}"
    if earlier.name == later.name:
        return report("SP115", later, f"has the same name as {other}", place="/name", quote=quote(later.name))
    if fold_name(earlier.name) == fold_name(later.name):
        return report("SP114", later, f"differs only by form from {other}", place="/name", quote=quote(later.name))
    return report("SP113", later, f"looks like {other}", place="/name", quote=quote(later.name))


def _describe_server(subject: Subject) -> str:
    return "this machine" if subject.server is None else f"server {subject.server!r}"


def _check_near(named: Sequence[Subject]) -> Iterator[Finding]:
    """Find names with one letter more, less, other or swapped: such names have a shortened form in common."""
    by_form: dict[str, list[tuple[str, Subject | None]]] = defaultdict(list)
    for known in WELL_KNOWN:
        for form in _shorten(fold_name(known)):
            by_form[form].append((known, None))
    words = _count_words(named)
    for each in named:
        own = fold_name(each.name[:_MAX_NAME_CHARS]) if each.name.isascii() else ""  # others are look-alikes or foreign
        forms = _shorten(own) if len(own) >= _MIN_NEAR_CHARS else set[str]()
        near = [
            (name, holder)
            for form in forms
            for name, holder in by_form.get(form, ())
            if (holder is None or holder.server != each.server) and _is_near(own, fold_name(name))
            if not _is_ordinary(each.name, name, words)
        ]
        if near:
            name, holder = near[0]
            other = (
                f"the common name {name!r}"
                if holder is None
                else f"{show_name(holder.name)} of {_describe_server(holder)}"
            )
            yield report("SP114", each, f"differs by one letter from {other}", place="/name", quote=quote(each.name))
        for form in forms:
            if len(by_form[form]) < 20:
                by_form[form].append((each.name[:_MAX_NAME_CHARS], each))


def _count_words(named: Sequence[Subject]) -> Counter[str]:
    """Count the words of all names: those that several tools use are ordinary words, not misspelled ones."""
    words = Counter(word for each in named for word in set(_split(each.name)))
    words.update(word for name in WELL_KNOWN for word in set(_split(name)))
    return words


def _split(name: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(name[:_MAX_NAME_CHARS])]


def _is_ordinary(name: str, other: str, words: Counter[str]) -> bool:
    """Return whether the words by which two names differ are ordinary: `get_commit` beside `git_commit`."""
    own, others = _split(name), _split(other)
    return len(own) == len(others) and all(
        words[mine] > 1 and words[theirs] > 1 for mine, theirs in zip(own, others, strict=True) if mine != theirs
    )


def _shorten(name: str) -> set[str]:
    """Return the name, and the name without each of its characters."""
    return {name, *(name[:at] + name[at + 1 :] for at in range(len(name)))}


def _is_near(left: str, right: str) -> bool:
    """Return whether two names differ by one letter; plurals and numbers (`v1`, `v2`) are ordinary names."""
    if left == right or left in (f"{right}s", f"{right}es") or right in (f"{left}s", f"{left}es"):
        return False
    start = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    a, b = left[start:], right[start:]
    is_same = a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])
    return is_same and not (a[:1].isdigit() or b[:1].isdigit())


def _check_references(named: Sequence[Subject]) -> Iterator[Finding]:
    holders: dict[str, set[str | None]] = defaultdict(set)
    for each in named:
        holders[each.name].add(each.server)
        if each.server is not None:
            holders[f"mcp__{each.server}__{each.name}"].add(each.server)
    for each in named:
        yield from _check_reference(each, holders)


def _check_reference(subject: Subject, holders: dict[str, set[str | None]]) -> Iterator[Finding]:
    found: dict[str, tuple[str, str]] = {}
    for part in subject.find_texts().parts:
        if part.role == "text":
            for word in _IDENTIFIER.finditer(part.text[:MAX_TEXT_CHARS]):
                name = word[1] or word[2]
                owners = holders.get(name)
                if owners and subject.server not in owners:
                    found.setdefault(name, (part.place, quote(word.string, *word.span(word.lastindex or 0))))
    for name, (place, quoted) in list(found.items())[:_MAX_SHOWN]:
        servers = _join(holders[name])
        message = f"refers to {show_name(name)}, a tool of {servers}"
        yield report("SP116", subject, message, place=place, quote=quoted)


def _join(servers: Iterable[str | None]) -> str:
    names = sorted(repr(each) for each in servers if each is not None)
    return f"server {', '.join(names[:_MAX_SHOWN])}" if names else "this machine"
