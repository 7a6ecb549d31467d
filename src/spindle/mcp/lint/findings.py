"""Findings of the linter: a rule that a definition breaks, the place in it, and what stands there."""

import hashlib
import json
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from spindle.json_types import JsonObject
from spindle.text import escape_invisible, shorten, shorten_middle, to_line

Severity: TypeAlias = Literal["error", "warning", "note"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
"""From the worst to the mildest."""

Kind: TypeAlias = Literal["tool", "prompt", "resource", "template", "app", "registry"]
"""What a finding is about; `registry` is all tools of a server, or of all servers."""

_MAX_QUOTE_CHARS: Final = 160
_MAX_NAME_CHARS: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One rule; ids and meanings are stable."""

    id: str
    severity: Severity
    title: str
    help: str
    """What it means and what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One place where a definition breaks a rule."""

    rule: str
    severity: Severity
    message: str
    kind: Kind = "tool"
    server: str | None = None
    """The upstream server; `None` for tools that run here."""
    name: str = ""
    """The name that its server uses; empty for a finding about all tools."""
    place: str = ""
    """JSON pointer into the definition as listed, such as `/inputSchema/properties/path/description`."""
    quote: str = ""
    """What stands there, shortened, with hidden characters written as numbers."""

    @property
    def fingerprint(self) -> str:
        """A stable id: the same until the rule, the tool, the place or the quoted text changes."""
        parts = [self.rule, self.kind, self.server, self.name, self.place, self.quote or self.message]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    @property
    def subject(self) -> str:
        """The tool for people: `server/name`, with hidden characters written as numbers."""
        shown = escape_invisible(self.name[:_MAX_NAME_CHARS])
        return "/".join(part for part in (self.server, shown) if part) or "all tools"

    def to_dict(self) -> JsonObject:
        """Return the finding as JSON data; keys are added, never renamed."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
            "kind": self.kind,
            "server": self.server,
            "name": self.name,
            "place": self.place,
            "quote": self.quote,
            "fingerprint": self.fingerprint,
        }


def quote(text: str, start: int = 0, end: int | None = None) -> str:
    """Quote a part of a text with some of its surroundings, on one line, with hidden characters as numbers."""
    end = len(text) if end is None else end
    first, last = max(0, start - 20), min(len(text), end + 20)
    part = escape_invisible(text[first : min(last, first + 4 * _MAX_QUOTE_CHARS)])
    shown = shorten_middle(to_line(part), _MAX_QUOTE_CHARS)
    return f"{'…' if first else ''}{shown}{'…' if last < len(text) else ''}"


def show_name(name: str) -> str:
    """Return an untrusted name for a message: shortened, with hidden characters as numbers."""
    return f"'{shorten(to_line(escape_invisible(name)), 80)}'"
