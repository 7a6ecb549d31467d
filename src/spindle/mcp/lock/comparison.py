"""What changed between a lock and a listing: by name first, then by content, so that a rename is found."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from spindle.json_types import JsonObject, JsonValue
from spindle.mcp.lock.definitions import KINDS, DefinitionKind, Listing, LockedDefinition
from spindle.mcp.lock.lock_file import LockedServer
from spindle.text import to_printable
from spindle.tools.identity import canonical_json

ChangeType: TypeAlias = Literal["changed", "added", "removed", "renamed", "unreadable"]

_MAX_NAME = 120
_FACTS: Final = ("origin", "program", "protocol", "capabilities")


@dataclass(frozen=True, kw_only=True, slots=True)
class DefinitionChange:
    """One difference between the locked and the listed definitions of a server."""

    kind: DefinitionKind
    name: str
    """The name it is listed under; the locked name of one that was removed."""
    type: ChangeType
    before: LockedDefinition | None = None
    """What is locked: under the same name, or under the old name of a renamed definition."""
    after: LockedDefinition | None = None
    problem: str | None = None
    """Why the definition is unreadable."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The top-level fields that differ; empty unless there is a definition on both sides."""
        if self.before is None or self.after is None:
            return ()
        old, new = self.before.value, self.after.value
        return tuple(sorted(key for key in {*old, *new} if _get_bytes(old, key) != _get_bytes(new, key)))

    @property
    def reason(self) -> str:
        """What happened, without any text of the definition but old names."""
        match self.type:
            case "changed":
                listed = ", ".join(to_printable(field, 40) for field in self.fields[:8])
                return f"its {listed or 'definition'} changed since it was locked"
            case "renamed":
                old = "" if self.before is None else to_printable(self.before.name, _MAX_NAME)
                return f"it has the content of {old!r}, which was locked under that name"
            case "added":
                return "it is new since the server was locked"
            case "removed":
                return "it is locked, and the server does not list it"
            case "unreadable":
                return self.problem or "it cannot be compared"


@dataclass(frozen=True, kw_only=True, slots=True)
class FactChange:
    """A difference in what a server says about itself, or in where it comes from."""

    fact: str
    """`origin`, `program`, `protocol` or `capabilities`."""
    before: JsonValue
    after: JsonValue


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerChanges:
    """All differences of one server."""

    definitions: tuple[DefinitionChange, ...] = ()
    facts: tuple[FactChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.definitions or self.facts)


def compare_servers(
    locked: LockedServer, found: LockedServer, unreadable: Iterable[DefinitionChange] = ()
) -> ServerChanges:
    """Compare a locked server with what it offers now, and with its definitions that are unreadable."""
    problems = {(each.kind, each.name): each.reason for each in unreadable}
    changes: list[DefinitionChange] = []
    for kind in KINDS:
        of_kind = {name: problem for (its_kind, name), problem in problems.items() if its_kind == kind}
        listing = Listing(kind=kind, definitions=found.of_kind(kind), problems=of_kind)
        changes += compare_definitions(locked.of_kind(kind), listing)
    facts = [
        FactChange(fact=fact, before=getattr(locked, fact), after=getattr(found, fact))
        for fact in _FACTS
        if getattr(locked, fact) != getattr(found, fact)
    ]
    return ServerChanges(definitions=tuple(changes), facts=tuple(facts))


def compare_definitions(locked: Mapping[str, LockedDefinition], listing: Listing) -> list[DefinitionChange]:
    """Return the differences, sorted by name: one for each name that is not listed exactly as it is locked.

    A listed definition whose content was locked under another name counts as renamed, also where two definitions
    exchanged their names. Each locked definition is the origin of one renamed definition at most.
    """
    listed, kind = listing.definitions, listing.kind
    new = {name: each for name, each in listed.items() if not _is_same(locked.get(name), each)}
    old = {name: each for name, each in locked.items() if not _is_same(listed.get(name), each)}
    renamed = _match_renames(old, new)
    changes = [_describe_listed(kind, name, each, locked, renamed) for name, each in new.items()]
    changes += [
        DefinitionChange(kind=kind, name=name, type="unreadable", before=locked.get(name), problem=problem)
        for name, problem in listing.problems.items()
    ]
    moved = set(renamed.values())
    changes += [
        DefinitionChange(kind=kind, name=name, type="removed", before=each)
        for name, each in old.items()
        if name not in listed and name not in moved and name not in listing.problems
    ]
    return sorted(changes, key=lambda change: change.name)


def _get_bytes(value: JsonObject, key: str) -> bytes | None:
    return canonical_json(value[key]) if key in value else None  # equal values may differ in JSON: True and 1


def _is_same(one: LockedDefinition | None, other: LockedDefinition) -> bool:
    return one is not None and one.fingerprint == other.fingerprint


def _describe_listed(
    kind: DefinitionKind,
    name: str,
    listed: LockedDefinition,
    locked: Mapping[str, LockedDefinition],
    renamed: Mapping[str, str],
) -> DefinitionChange:
    if name in renamed:
        return DefinitionChange(kind=kind, name=name, type="renamed", before=locked[renamed[name]], after=listed)
    before = locked.get(name)
    return DefinitionChange(
        kind=kind, name=name, type="added" if before is None else "changed", before=before, after=listed
    )


def _match_renames(old: Mapping[str, LockedDefinition], new: Mapping[str, LockedDefinition]) -> dict[str, str]:
    """Map new names to the old names of the same content, or else of the same description; one to one."""
    left = {name: each for name, each in old.items() if not _is_same_content(new.get(name), each)}
    unmatched = {name: each for name, each in new.items() if not _is_same_content(old.get(name), each)}
    renamed: dict[str, str] = {}
    for key in (_get_content, _get_description):
        groups = _group(left.values(), key)
        for name in sorted(unmatched):
            group = groups.get(key(unmatched[name]), [])
            if group and name not in group:  # a description that stayed under its own name was not moved
                renamed[name] = group.pop(0)
                del left[renamed[name]], unmatched[name]
    return renamed


def _is_same_content(one: LockedDefinition | None, other: LockedDefinition) -> bool:
    return one is not None and one.content == other.content


def _get_content(definition: LockedDefinition) -> str:
    return definition.content


def _get_description(definition: LockedDefinition) -> str:
    return definition.description.strip()


def _group(definitions: Iterable[LockedDefinition], key: Callable[[LockedDefinition], str]) -> dict[str, list[str]]:
    """Return the names by key, each group sorted; an empty key says nothing."""
    groups: dict[str, list[str]] = defaultdict(list)
    for each in sorted(definitions, key=lambda definition: definition.name):
        if key(each):
            groups[key(each)].append(each.name)
    return groups


def accept_changes(locked: LockedServer, found: LockedServer, changes: Iterable[DefinitionChange]) -> LockedServer:
    """Return the lock of a server with some of its changes accepted; everything else stays as it is locked."""
    definitions = {kind: dict(locked.of_kind(kind)) for kind in KINDS}
    for change in changes:
        named = definitions[change.kind]
        if (
            change.type == "renamed"
            and change.before is not None
            and change.before.name not in found.of_kind(change.kind)
        ):
            named.pop(change.before.name, None)
        if change.after is not None:
            named[change.name] = change.after
        elif change.type == "removed":
            named.pop(change.name, None)
    return replace(locked, definitions={kind: definitions[kind] for kind in KINDS if definitions[kind]})


def change_to_json(change: DefinitionChange) -> JsonObject:
    """Return a change as JSON data; the keys are stable."""
    return {
        "kind": change.kind,
        "name": change.name,
        "change": change.type,
        "old_name": change.before.name if change.before is not None and change.type == "renamed" else None,
        "fields": list(change.fields),
        "reason": change.reason,
        "before": None if change.before is None else change.before.fingerprint,
        "after": None if change.after is None else change.after.fingerprint,
    }
