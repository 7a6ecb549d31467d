"""The listings of several users of one server, merged: the first user who lists a tool defines it.

A definition that the lock does not accept counts only if no user has one that it accepts, so that a server which shows
a poisoned definition to one user cannot take the tool away from the others.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import anyio.to_thread

from spindle.calls import Err, Ok
from spindle.mcp.client.lifecycle import ServerStatus
from spindle.mcp.client.tools import PreparedListing, UpstreamCall, full_name, to_definition
from spindle.mcp.lock.comparison import DefinitionChange
from spindle.mcp.lock.quarantine import DefinitionGuard, WithheldDefinition
from spindle.mcp.spec import ServerSpec

if TYPE_CHECKING:
    from mcp_types import Tool as ForeignTool

_Listings: TypeAlias = Mapping[str, Mapping[str, bytes]]

MAX_LISTINGS: Final = 1_024
"""Users whose listings are kept; beyond it the oldest is dropped, and its user connects again to see his tools."""


class ListedServer(Protocol):
    """The server whose tools are registered."""

    spec: ServerSpec
    guard: DefinitionGuard

    def prepare_listing(self, listed: "Sequence[ForeignTool]") -> PreparedListing:
        """Convert what is new or changed."""
        ...

    def apply_listing(self, prepared: PreparedListing) -> None:
        """Register the changes."""
        ...


class CallsByUser(Protocol):
    """Sends each call over the connection of its user, for a server with OAuth."""

    async def call(self, wanted: UpstreamCall) -> Ok | Err:
        """Send a call and return its result."""
        ...

    def status(self, *, tools: int) -> ServerStatus:
        """Return the status of the server."""
        ...

    def get_withheld(self) -> tuple[WithheldDefinition, ...]:
        """Return the prompts and resources in quarantine that users have."""
        ...

    async def recheck(self) -> None:
        """Check the listings of all users again, since the lock was replaced."""
        ...


class UserListings:
    """What a server lists for each of its users. A user has a tool if his own listing defines it as it is registered.

    Definitions may name things of a user, so that no user sees those of others.
    """

    def __init__(self, server: ListedServer, changed: Callable[[], None]) -> None:
        self._server, self._changed = server, changed
        self._listings: dict[str, dict[str, bytes]] = {}
        """User → tool → digest of its definition."""
        self._registered: dict[str, bytes] = {}
        """Tool → the definition that is registered, unless it is withheld."""
        self._definitions: dict[bytes, ForeignTool] = {}
        self._drafts: dict[str, tuple[int, dict[str, bytes]]] = {}
        self._version = 0
        self._lock = Lock()
        self._refused: dict[bytes, tuple[DefinitionChange, ...] | None] = {}
        """Definition → how it differs from the lock; `None` if the lock accepts it."""

    def has(self, user: str) -> bool:
        """Return whether the listing of a user is known."""
        return user in self._listings

    def offers(self, user: str, tool: str) -> bool:
        """Return whether the server lists a tool for a user as it is registered."""
        own = self._listings.get(user, {}).get(tool)
        return own is not None and own == self._registered.get(tool)

    def get_definitions(self, user: str) -> "list[ForeignTool]":
        """Return the tools that the server lists for a user."""
        return [self._definitions[digest] for digest in self._listings.get(user, {}).values()]

    def find_hidden(self, user: str) -> frozenset[str]:
        """Return the full names of the tools that other users have, but not this one."""
        every = dict.fromkeys(tool for listing in self._listings.values() for tool in listing)
        return frozenset(full_name(self._server.spec, tool) for tool in every if not self.offers(user, tool))

    def prepare(self, user: str, listed: "Sequence[ForeignTool]") -> PreparedListing:
        """Convert the listings of all users, with a new one of this user; may run in a thread."""
        own: dict[str, bytes] = {}
        found: dict[bytes, ForeignTool] = {}
        for tool in listed:
            if tool.name not in own:
                own[tool.name] = digest = _hash(tool)
                found[digest] = tool
        with self._lock:
            self._definitions = definitions = {**found, **self._definitions}
            self._drafts[user] = self._version, own
            listings = {**self._listings, user: own}
        return self._merge(listings, definitions)

    def apply(self, user: str, prepared: PreparedListing) -> None:
        """Keep the listing of a user, and register the changes."""
        version, own = self._drafts.pop(user)
        if len(self._listings) >= MAX_LISTINGS and user not in self._listings:
            del self._listings[next(iter(self._listings))]
        has_changed = self._listings.get(user) != own
        self._listings[user] = own
        # Another user's listing may have come in between.
        self._register(prepared if version == self._version else self._merge(self._listings, self._definitions))
        if has_changed:
            self._changed()

    def forget(self, user: str) -> None:
        """Drop the listing of a user who has logged out."""
        if self._listings.pop(user, None) is not None:
            self._register(self._merge(self._listings, self._definitions))
            self._changed()

    async def recheck(self) -> None:
        """Check the listings of all users again, since the lock was replaced."""
        self._refused = {}
        version, listings = self._version, dict(self._listings)
        prepared = await anyio.to_thread.run_sync(self._merge, listings, self._definitions)
        self._register(prepared if version == self._version else self._merge(self._listings, self._definitions))
        self._changed()

    def _register(self, prepared: PreparedListing) -> None:
        self._version += 1
        self._registered = self._choose(self._listings, self._definitions)
        with self._lock:
            self._drop_unused()
        self._server.apply_listing(prepared)

    def _drop_unused(self) -> None:
        used = {digest for listing in self._listings.values() for digest in listing.values()}
        used.update(digest for _, draft in self._drafts.values() for digest in draft.values())
        self._definitions = {digest: tool for digest, tool in self._definitions.items() if digest in used}
        self._refused = {digest: found for digest, found in list(self._refused.items()) if digest in used}

    def _merge(self, listings: _Listings, definitions: "Mapping[bytes, ForeignTool]") -> PreparedListing:
        chosen = self._choose(listings, definitions)
        prepared = self._server.prepare_listing([definitions[digest] for digest in chosen.values()])
        every = {digest for listing in list(listings.values()) for digest in listing.values()}
        others = [
            change for digest in every - set(chosen.values()) for change in self._compare(digest, definitions) or ()
        ]  # withheld from the users for whom the server lists them
        if prepared.checked is None or not others:
            return prepared
        changes = (*prepared.checked.changes, *sorted(others, key=lambda each: each.name))
        return replace(prepared, checked=replace(prepared.checked, changes=changes))

    def _choose(self, listings: _Listings, definitions: "Mapping[bytes, ForeignTool]") -> dict[str, bytes]:
        """Return the definition of each tool: the first one that the lock accepts, or else the first one."""
        chosen: dict[str, bytes] = {}
        for listing in list(listings.values()):
            for tool, digest in listing.items():
                known = chosen.setdefault(tool, digest)
                if known == digest or self._compare(known, definitions) is None:
                    continue
                if self._compare(digest, definitions) is None:
                    chosen[tool] = digest
        return chosen

    def _compare(
        self, digest: bytes, definitions: "Mapping[bytes, ForeignTool]"
    ) -> tuple[DefinitionChange, ...] | None:
        """Return how a definition differs from the lock; `None` if it may be offered."""
        refused = self._refused  # replaced, never changed back, by other threads
        if digest not in refused:
            tool = definitions[digest]
            checked = self._server.guard.check("tool", [to_definition(tool)])
            changes = tuple(each for each in checked.changes if each.type != "removed")
            refused[digest] = changes if checked.is_withheld(tool.name) else None
        return refused[digest]


def _hash(tool: "ForeignTool") -> bytes:
    written = json.dumps(tool.model_dump(mode="json", by_alias=True, exclude_none=True), sort_keys=True)
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).digest()
