"""Baseline files: the findings that are accepted, so that only new ones are reported."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from spindle.errors import UsageError
from spindle.json_types import JsonObject, is_array, is_object
from spindle.mcp.lint.findings import Finding

VERSION: Final = 1
_MAX_ENTRIES: Final = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """Accepted findings by fingerprint; each entry also says what was accepted, for people who read the file."""

    entries: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])

    @classmethod
    def from_findings(cls, findings: Iterable[Finding]) -> Self:
        """Build a baseline that accepts these findings."""
        return cls(entries={each.fingerprint: _describe(each) for each in findings})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a baseline file.

        Raises:
            UsageError: The text is not a baseline.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError("the baseline is not JSON; write it with --write-baseline", field="baseline") from error
        listed = data.get("findings") if is_object(data) else None
        if not is_object(data) or data.get("version") != VERSION or not is_array(listed) or len(listed) > _MAX_ENTRIES:
            raise UsageError(
                f"expected a baseline of version {VERSION} with a list of findings; write it with --write-baseline",
                field="baseline",
            )
        entries = {str(each.get("fingerprint")): each for each in listed if is_object(each)}
        return cls(entries=entries)

    def to_json(self) -> str:
        """Return the text of the file: sorted, so that changes are small."""
        ordered = sorted(self.entries.values(), key=lambda each: [str(each.get(key)) for key in _KEYS])
        return json.dumps({"version": VERSION, "findings": ordered}, indent=2) + "\n"

    def split(self, findings: Iterable[Finding]) -> tuple[list[Finding], list[JsonObject]]:
        """Return the findings that are not accepted, and the entries that nothing matches any more."""
        listed = list(findings)
        present = {each.fingerprint for each in listed}
        fixed = [entry for fingerprint, entry in self.entries.items() if fingerprint not in present]
        return [each for each in listed if each.fingerprint not in self.entries], fixed


_KEYS: Final = ("rule", "server", "name", "place", "fingerprint")


def _describe(finding: Finding) -> JsonObject:
    data = finding.to_dict()
    return {key: data[key] for key in (*_KEYS, "message")}
