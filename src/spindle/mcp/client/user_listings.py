"""The listings of several users of one server, merged: the first user who lists a tool defines it."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from spindle.calls import Err, Ok
from spindle.mcp.client.lifecycle import ServerStatus
from spindle.mcp.client.tools import PreparedListing, UpstreamCall, full_name
from spindle.mcp.spec import ServerSpec

if TYPE_CHECKING:
    from mcp_types import Tool as ForeignTool

MAX_LISTINGS: Final = 1_024
"""Users whose listings are kept; beyond it the oldest is dropped, and its user connects again to see his tools."""


class ListedServer(Protocol):
    """The server whose tools are registered."""

    spec: ServerSpec

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


class UserListings:
    """What a server lists for each of its users. A user has a tool if his own listing defines it as it is registered.

    Definitions may name things of a user, so that no user sees those of others.
    """

    def __init__(self, server: ListedServer, changed: Callable[[], None]) -> None:
        self._server, self._changed = server, changed
        self._listings: dict[str, dict[str, bytes]] = {}
        """User → tool → digest of its definition."""
        self._definitions: dict[bytes, ForeignTool] = {}
        self._drafts: dict[str, tuple[int, dict[str, bytes]]] = {}
        self._version = 0

    def has(self, user: str) -> bool:
        """Return whether the listing of a user is known."""
        return user in self._listings

    def offers(self, user: str, tool: str) -> bool:
        """Return whether the server lists a tool for a user as it is registered."""
        own = self._listings.get(user, {}).get(tool)
        return own is not None and own == next((each[tool] for each in self._listings.values() if tool in each), None)

    def find_hidden(self, user: str) -> frozenset[str]:
        """Return the full names of the tools that other users have, but not this one."""
        every = dict.fromkeys(tool for listing in self._listings.values() for tool in listing)
        return frozenset(full_name(self._server.spec, tool) for tool in every if not self.offers(user, tool))

    def prepare(self, user: str, listed: "Sequence[ForeignTool]") -> PreparedListing:
        """Convert the listings of all users, with a new one of this user; may run in a thread."""
        own: dict[str, bytes] = {}
        for tool in listed:
            if tool.name not in own:
                own[tool.name] = digest = _hash(tool)
                self._definitions.setdefault(digest, tool)
        self._drafts[user] = self._version, own
        return self._merge({**self._listings, user: own})

    def apply(self, user: str, prepared: PreparedListing) -> None:
        """Keep the listing of a user, and register the changes."""
        version, own = self._drafts.pop(user)
        if len(self._listings) >= MAX_LISTINGS and user not in self._listings:
            del self._listings[next(iter(self._listings))]
        has_changed = self._listings.get(user) != own
        self._listings[user] = own
        # Another user's listing may have come in between.
        self._register(prepared if version == self._version else self._merge(self._listings))
        if has_changed:
            self._changed()

    def forget(self, user: str) -> None:
        """Drop the listing of a user who has logged out."""
        if self._listings.pop(user, None) is not None:
            self._register(self._merge(self._listings))
            self._changed()

    def _register(self, prepared: PreparedListing) -> None:
        self._version += 1
        used = {digest for listing in self._listings.values() for digest in listing.values()}
        used.update(digest for _, draft in self._drafts.values() for digest in draft.values())
        self._definitions = {digest: tool for digest, tool in self._definitions.items() if digest in used}
        self._server.apply_listing(prepared)

    def _merge(self, listings: Mapping[str, Mapping[str, bytes]]) -> PreparedListing:
        merged: dict[str, bytes] = {}
        for listing in list(listings.values()):
            for tool, digest in listing.items():
                merged.setdefault(tool, digest)
        return self._server.prepare_listing([self._definitions[digest] for digest in merged.values()])


def _hash(tool: "ForeignTool") -> bytes:
    written = json.dumps(tool.model_dump(mode="json", by_alias=True, exclude_none=True), sort_keys=True)
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).digest()
