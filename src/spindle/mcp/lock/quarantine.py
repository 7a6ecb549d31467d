"""`DefinitionGuard`: checks every listing of a server against the lock and withholds what was not accepted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from spindle.events import Events, Warned
from spindle.json_types import JsonValue
from spindle.mcp.lock.comparison import DefinitionChange, compare_definitions
from spindle.mcp.lock.definitions import KINDS, DefinitionKind, Listing, LockedDefinition
from spindle.mcp.lock.lock_file import LockedServer, LockFile
from spindle.text import PayloadRedactor, to_printable

UnlockedServers: TypeAlias = Literal["offer", "quarantine"]

MAX_REPORTED: Final = 20
"""Events for one listing; a server may list thousands of new definitions."""
MAX_SHOWN: Final = 50
"""Withheld definitions in a status."""
_MAX_NAME: Final = 120
_MAX_REMEMBERED: Final = 5_000
_SOURCE: Final = "mcp"


@dataclass(frozen=True, kw_only=True, slots=True)
class LockPolicy:
    """The lock of a client's servers, and what happens to servers that are not in it."""

    file: LockFile | None = None
    unlocked: UnlockedServers = "offer"
    """Whether the definitions of a server that is not locked are offered, with a warning, or withheld."""

    def find(self, server: str) -> LockedServer | None:
        """Return what is locked of a server."""
        return None if self.file is None else self.file.servers.get(server)


@dataclass(frozen=True, kw_only=True, slots=True)
class WithheldDefinition:
    """A definition in quarantine; neither name nor reason has text of its description or schema."""

    kind: DefinitionKind
    name: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class QuarantineWarning(Warned):
    """The payload of the `warning` event about one definition that was withheld."""

    server: str
    kind: DefinitionKind
    name: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedListing:
    """A listing, and which of its definitions may be offered."""

    listing: Listing
    allowed: frozenset[str] | None
    """The names that may be offered; `None` if every one may."""
    changes: tuple[DefinitionChange, ...] = ()
    """Differences from the lock; without a lock, from the earlier listings of this process."""
    is_locked: bool = False

    def is_withheld(self, name: str) -> bool:
        """Return whether a definition must be neither shown nor used."""
        return self.allowed is not None and name not in self.allowed


@dataclass(eq=False)
class _KindState:
    """What the guard knows about one kind of definition."""

    checked: CheckedListing
    withheld: tuple[WithheldDefinition, ...] = ()
    reported: dict[str, str] = field(default_factory=dict[str, str])
    remembered: dict[str, LockedDefinition] = field(default_factory=dict[str, LockedDefinition])
    """Definitions that were offered in this process, to notice changes without a lock."""


class DefinitionGuard:
    """The guard of one server's definitions: `check` each listing, then `apply` it before anything is offered.

    The guards of several users of a server share `said`, so that what all of them find is reported once.
    """

    def __init__(
        self,
        server: str,
        policy: LockPolicy,
        *,
        events: Events,
        redactor: PayloadRedactor,
        said: set[str] | None = None,
    ) -> None:
        self.server = server
        self.policy = policy
        self._events = events
        self._redactor = redactor
        self._said = said
        self._states: dict[DefinitionKind, _KindState] = {}
        self._has_warned_unlocked = False

    @property
    def is_locked(self) -> bool | None:
        """Whether the server is in the lock; `None` without a lock file."""
        return None if self.policy.file is None else self.policy.find(self.server) is not None

    def check(self, kind: DefinitionKind, values: Iterable[JsonValue]) -> CheckedListing:
        """Compare a listing with the lock; changes nothing, so it may run in a thread."""
        listing = Listing.read(kind, (self._redactor.redact_value(value) for value in values))
        locked = self.policy.find(self.server)
        if locked is not None:
            accepted = locked.of_kind(kind)
            allowed = frozenset(
                name
                for name, each in listing.definitions.items()
                if name in accepted and accepted[name].fingerprint == each.fingerprint
            )
            changes = tuple(compare_definitions(accepted, listing))
            return CheckedListing(listing=listing, allowed=allowed, changes=changes, is_locked=True)
        if self.policy.unlocked == "quarantine":
            changes = tuple(compare_definitions({}, listing))
            return CheckedListing(listing=listing, allowed=frozenset(), changes=changes)
        state = self._states.get(kind)
        changes = () if state is None else tuple(compare_definitions(state.remembered, listing))
        return CheckedListing(listing=listing, allowed=None, changes=changes)

    def apply(self, checked: CheckedListing) -> None:
        """Make a checked listing the current one and report what it withholds."""
        state = self._states.setdefault(checked.listing.kind, _KindState(checked))
        state.checked = checked
        if checked.allowed is None:
            state.withheld, state.reported = (), {}
            self._warn_unlocked()
            self._warn_changed(state)
            return
        state.remembered = {}
        withheld = [self._describe(change) for change in checked.changes if change.type != "removed"]
        state.withheld = tuple(withheld)
        self._report(state, withheld)

    def record(self, checked: CheckedListing) -> None:
        """Make a checked listing the current one without a report: it was made for a lock file, not for clients."""
        self._states.setdefault(checked.listing.kind, _KindState(checked)).checked = checked

    def is_withheld(self, kind: DefinitionKind, name: str) -> bool:
        """Return whether a definition must be neither shown nor used; what was never checked is withheld if locked."""
        state = self._states.get(kind)
        if state is not None:
            return state.checked.is_withheld(name)
        return self.policy.find(self.server) is not None or self.policy.unlocked == "quarantine"

    def withhold(self, kind: DefinitionKind, name: str, reason: str) -> None:
        """Withhold a definition of a locked server until its next listing, and report it."""
        state = self._states.setdefault(
            kind, _KindState(CheckedListing(listing=Listing(kind=kind), allowed=frozenset()))
        )
        state.checked = replace(state.checked, allowed=(state.checked.allowed or frozenset()) - {name})
        each = WithheldDefinition(kind=kind, name=to_printable(name, _MAX_NAME), reason=reason)
        state.withheld = (*(other for other in state.withheld if other.name != each.name), each)
        self._report(state, list(state.withheld))

    def get_withheld(self) -> tuple[WithheldDefinition, ...]:
        """Return every definition in quarantine."""
        return tuple(each for kind in KINDS if kind in self._states for each in self._states[kind].withheld)

    def get_listing(self, kind: DefinitionKind) -> Listing:
        """Return the latest listing of a kind."""
        state = self._states.get(kind)
        return Listing(kind=kind) if state is None else state.checked.listing

    def _describe(self, change: DefinitionChange) -> WithheldDefinition:
        reason = change.reason
        if change.type == "added" and self.policy.find(self.server) is None:
            reason = "its server is not locked"
        return WithheldDefinition(kind=change.kind, name=to_printable(change.name, _MAX_NAME), reason=reason)

    def _report(self, state: _KindState, withheld: list[WithheldDefinition]) -> None:
        current = {each.name: each.reason for each in withheld}
        new = [each for each in withheld if state.reported.get(each.name) != each.reason]
        state.reported = current
        for each in new[:MAX_REPORTED]:
            self._warn(
                f"its {_to_words(each.kind)} {each.name!r} is in quarantine: {each.reason}; "
                f"`spindle diff` shows it, and `spindle lock` accepts it",
                each,
            )
        if len(new) > MAX_REPORTED:
            self._warn(f"{len(new) - MAX_REPORTED} more definitions are in quarantine; `spindle diff` shows them")

    def _warn_unlocked(self) -> None:
        if self.policy.file is not None and not self._has_warned_unlocked:
            self._has_warned_unlocked = True
            self._warn("it is not in the lock file, so its definitions are not checked; `spindle lock` adds it")

    def _warn_changed(self, state: _KindState) -> None:
        """Warn of definitions that changed since they were offered, and remember the current ones."""
        changed = [each for each in state.checked.changes if each.type in ("changed", "renamed")]
        for each in changed[:MAX_REPORTED]:
            name, what = to_printable(each.name, _MAX_NAME), _to_words(each.kind)
            reason = each.reason.replace("locked", "listed")
            self._warn(f"its {what} {name!r} changed while it was in use: {reason}; `spindle lock` withholds changes")
        if len(changed) > MAX_REPORTED:
            self._warn(f"{len(changed) - MAX_REPORTED} more definitions changed while they were in use")
        listed: Mapping[str, LockedDefinition] = state.checked.listing.definitions
        state.remembered |= listed
        if len(state.remembered) > _MAX_REMEMBERED:  # a server that changes its names all the time
            state.remembered = dict(listed)

    def _warn(self, text: str, withheld: WithheldDefinition | None = None) -> None:
        message = self._redactor.redact(f"MCP server {self.server!r}: {text}")
        if self._said is not None:
            if message in self._said:
                return
            if len(self._said) >= _MAX_REMEMBERED:
                self._said.clear()
            self._said.add(message)
        if withheld is None or not self._events.has_observer("warning"):
            self._events.warn(message, source=_SOURCE)
            return
        payload = QuarantineWarning(
            message=message,
            source=_SOURCE,
            server=self.server,
            kind=withheld.kind,
            name=withheld.name,
            reason=withheld.reason,
        )
        self._events.notify("warning", payload)


def _to_words(kind: DefinitionKind) -> str:
    return kind.replace("_", " ")
