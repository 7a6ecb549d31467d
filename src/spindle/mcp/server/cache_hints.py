"""How long clients of the newer protocol may keep what a server lists, from the configuration."""

import math
from typing import Final, Literal

from mcp.server.caching import CacheHint
from mcp_types.methods import CacheableMethod

from spindle.errors import UsageError

MAX_SECONDS: Final = 86_400
_LISTS: Final[tuple[CacheableMethod, ...]] = (
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
)


def build_cache_hints(seconds: float, scope: Literal["public", "private"]) -> dict[CacheableMethod, CacheHint]:
    """Return the hints of all lists; the content of a resource has those of its own server.

    Raises:
        UsageError: The seconds are not between 0 and a day, or the scope is unknown.
    """
    if not (math.isfinite(seconds) and 0 <= seconds <= MAX_SECONDS):
        raise UsageError(f"cache_seconds must be between 0 and {MAX_SECONDS}, got {seconds!r}", field="cache_seconds")
    if scope not in ("public", "private"):
        raise UsageError(f"cache_scope must be 'public' or 'private', got {scope!r}", field="cache_scope")
    return {method: CacheHint(ttl_ms=round(seconds * 1000), scope=scope) for method in _LISTS}


def check_scope(scope: Literal["public", "private"], *, has_tokens: bool) -> None:
    """Check that lists which differ between clients are not offered to shared caches.

    Raises:
        UsageError: The scope is public, and tokens decide what a client sees.
    """
    if scope == "public" and has_tokens:
        raise UsageError(
            "cache_scope = 'public' needs that there are no tokens: with tokens, lists differ between clients; "
            "remove cache_scope",
            field="cache_scope",
        )
