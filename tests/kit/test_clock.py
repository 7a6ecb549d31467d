"""The time, in any zone."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.kit.calling import Workshop

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kathmandu"])
async def test_the_time_is_now(tmp_path: Path, zone: str) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)

    result = await Workshop(tmp_path).ok("time_now", timezone=zone)

    reported = datetime.fromisoformat(result.structured["time"])
    assert before <= reported <= datetime.now(UTC)
    assert result.structured["weekday"] == reported.strftime("%A")
    assert result.structured["timezone"] == zone
    assert result.trusted


async def test_without_a_zone_it_is_utc(tmp_path: Path) -> None:
    assert (await Workshop(tmp_path).ok("time_now")).structured["time"].endswith("+00:00")


@pytest.mark.parametrize(
    "zone", ["Berlin", "", "../../etc/passwd", "/etc/passwd", "America", "UTC\0", "x" * 100, "\ud800", "Europe/../UTC"]
)
async def test_a_value_that_is_not_a_zone_is_refused(tmp_path: Path, zone: str) -> None:
    error = await Workshop(tmp_path).err("time_now", timezone=zone)

    assert (error.code, error.field) == ("input_invalid", "timezone")


async def test_a_near_name_is_offered(tmp_path: Path) -> None:
    assert "Europe/Berlin" in (await Workshop(tmp_path).err("time_now", timezone="Europe/Berlim")).error
