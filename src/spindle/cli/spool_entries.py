"""What a spool keeps, and which of it somebody means."""

from spindle.artifacts.retention import SpoolEntry
from spindle.artifacts.spool import Spool
from spindle.cli.config import Config
from spindle.cli.house import spool_of
from spindle.errors import UsageError


async def kept(config: Config) -> list[SpoolEntry]:
    """Everything that is kept, newest first."""
    return sorted(await spool_of(config).entries(), key=lambda entry: entry.created_at, reverse=True)


async def meant(config: Config, given: str) -> tuple[Spool, SpoolEntry | None, list[str]]:
    """The artifact of an id, or of the end of one that fits no other; else every id there is.

    Raises:
        UsageError: Several ids end like that.
    """
    spool, entries = spool_of(config), await kept(config)
    exact = next((entry for entry in entries if entry.id == given), None)
    if exact is not None:
        return spool, exact, []
    fitting = [entry for entry in entries if entry.id.rpartition("/")[2] == given]
    fitting = fitting or [
        entry for entry in entries if given and (entry.id.endswith(given) or entry.id.startswith(given))
    ]
    if len(fitting) > 1:
        some = ", ".join(entry.id for entry in fitting[:3])
        raise UsageError(f"{given!r} fits {len(fitting)} artifacts: {some}{' …' if fitting[3:] else ''}", field="id")
    return spool, fitting[0] if fitting else None, [entry.id for entry in entries]
