"""The tool `time_now`: the current date and time in a time zone."""

from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo, available_timezones

from pydantic import Field

from spindle.calls import Err
from spindle.json_types import JsonObject
from spindle.text import did_you_mean, to_printable
from spindle.tools.declaration import tool


# Trusted: the output contains no third-party text.
@tool(toolset="clock", trusted=True, read_only=True, timeout_seconds=10, max_result_chars=500)
async def time_now(timezone: Annotated[str, Field(max_length=100)] = "UTC") -> JsonObject | Err:
    """Return the current date and time, with weekday and offset from UTC.

    Args:
        timezone: An IANA time zone name such as "UTC", "Europe/Berlin" or "America/New_York".
    """
    try:
        zone = ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):  # unknown, not a name, or a directory of the zone database
        return Err("input_invalid", _unknown(timezone), field="timezone")
    now = datetime.now(UTC).astimezone(zone)
    return {
        "time": now.isoformat(timespec="seconds"),
        "weekday": now.strftime("%A"),
        "timezone": timezone,
        "unix_seconds": int(now.timestamp()),
    }


def _unknown(timezone: str) -> str:
    hint = did_you_mean(timezone, available_timezones(), count=3)
    return f"{to_printable(timezone, 100)!r} is not an IANA time zone such as 'Europe/Berlin'{hint and f'; {hint}'}"
