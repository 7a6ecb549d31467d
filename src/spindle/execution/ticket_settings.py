"""The settings of calls that wait for approval in the journal, and their checks; `tickets.py` uses them."""

import math
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from spindle.errors import UsageError
from spindle.json_types import is_list_or_tuple

if TYPE_CHECKING:
    from spindle.journal.journal import Journal
    from spindle.trust.flow.policy import FlowPolicy
    from spindle.trust.labels import SinkPolicy

StateKeys: TypeAlias = str | bytes | Sequence[str | bytes]
"""A state key, or several after a rotation, newest first."""


class TicketSettings(NamedTuple):
    """What an executor needs to issue and to answer tickets."""

    journal: "Journal"
    key: StateKeys | None
    """`None` for the key of this process."""
    ttl_seconds: float
    policy: "FlowPolicy | SinkPolicy | None"

    @classmethod
    def build(
        cls, journal: "Journal", key: StateKeys | None, ttl_seconds: float, policy: "FlowPolicy | SinkPolicy | None"
    ) -> "TicketSettings | None":
        """Return the settings, or `None` where calls cannot wait, without the extra `tickets`."""
        return cls(journal, key, ttl_seconds, policy) if _has_ticket_packages() else None


@cache
def _has_ticket_packages() -> bool:
    return all(find_spec(package) is not None for package in ("cryptography", "itsdangerous"))


def check_state_key(given: object) -> None:
    """Check a state key, or the keys of a rotation.

    Raises:
        UsageError: A key is empty, or not text or bytes.
    """
    keys: list[object] = list(given) if is_list_or_tuple(given) else [given]
    if not (keys and all(isinstance(key, (str, bytes)) and key for key in keys)):
        expected = "text or bytes, such as secrets.token_urlsafe(32), or a list of them, newest first"
        raise UsageError(f"state_key must be {expected}", field="state_key")


def check_ticket_settings(state_key: object, ttl_seconds: object) -> None:
    """Check the settings of tickets.

    Raises:
        UsageError: Names the first invalid setting.
    """
    if state_key is not None:
        check_state_key(state_key)
    if not (
        isinstance(ttl_seconds, (int, float))
        and not isinstance(ttl_seconds, bool)
        and math.isfinite(ttl_seconds)
        and ttl_seconds > 0
    ):
        raise UsageError(
            f"ticket_ttl_seconds must be a number above 0, got {ttl_seconds!r}", field="ticket_ttl_seconds"
        )
