"""The URIs of upstream resources as clients of the gateway see them; pure and reversible.

`file:///a` of the server `files` becomes `spindle://files/file:///a`, and `ui://app` becomes `ui://files/app`, because
hosts look for that scheme. URI templates are mapped in the same way: nothing that RFC 6570 expands is changed.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

UI: Final = "ui://"
"""The scheme of the resources of MCP Apps."""
SCHEME: Final = "spindle://"
MAX_URI_CHARS: Final = 8_192
"""Longer URIs are neither listed nor read."""


@dataclass(frozen=True, slots=True)
class UriMapping:
    """Maps the URIs and URI templates of one server; both directions are exact inverses, so each has one form only."""

    server: str
    is_prefixed: bool = True

    def to_gateway(self, uri: str) -> str:
        """Return the URI, or URI template, that clients use."""
        if not self.is_prefixed:
            return uri
        if uri.startswith(UI):
            return f"{UI}{self._host}/{uri.removeprefix(UI)}"
        return f"{SCHEME}{self._host}/{uri}"

    def to_server(self, uri: str) -> str | None:
        """Return the server's own URI; `None` if the URI belongs to another server, or to none."""
        if not self.is_prefixed:
            return uri
        for scheme, own in ((UI, UI), (SCHEME, "")):
            start = f"{scheme}{self._host}/"
            if uri.startswith(start):
                found = own + uri.removeprefix(start)
                # A resource of an app has no second name, which a filter would not know.
                return found if self.to_gateway(found) == uri else None
        return None

    @property
    def _host(self) -> str:
        # A name may contain slashes and braces, which would end it or start an expression of a template.
        return quote(self.server, safe="")
