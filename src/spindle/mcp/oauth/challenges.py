"""The header `WWW-Authenticate` of a server that wants a token, or one with more scopes."""

import re
from dataclasses import dataclass
from typing import Final

_MAX_CHARS: Final = 4_000
_PARAMETER: Final = re.compile(r'([A-Za-z_]{1,40})=(?:"([^"\\]*)"|([^\s,"]+))')
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Challenge:
    """What a server asks for."""

    error: str | None = None
    scope: str | None = None
    resource_metadata: str | None = None


def parse_challenge(header: str) -> Challenge:
    """Parse a challenge for a bearer token; a header of any other kind asks for nothing."""
    kind, _, rest = header[:_MAX_CHARS].partition(" ")
    if kind.lower() != "bearer":
        return Challenge()
    given: dict[str, str] = {}
    for found in _PARAMETER.finditer(rest):
        given.setdefault(found[1].lower(), found[2] if found[2] is not None else found[3])
    scope = given.get("scope")
    return Challenge(
        error=given.get("error"),
        scope=scope if scope is not None and _SCOPE.fullmatch(scope) else None,
        resource_metadata=given.get("resource_metadata"),
    )
