"""Checks of the logins at upstream servers that use OAuth."""

from collections.abc import Iterator

from spindle.cli.checks.check import Check
from spindle.cli.config.loader import Config
from spindle.cli.runtime_logins import describe_logins
from spindle.errors import SpindleError

_AREA = "servers"


def check_logins(config: Config) -> Iterator[Check]:
    """Report who has logged in to each server with OAuth."""
    try:
        for server, detail, fix in describe_logins(config):
            yield Check(_AREA, f"{server}, login", "ok" if fix is None else "warning", detail, fix)
    except SpindleError as error:
        yield Check(_AREA, "login", "failed", str(error))
