import math
from typing import Any

import pytest

from spindle.errors import InvalidToolError
from spindle.tools.tool_fields import CachePolicy


def test_a_result_may_be_given_again_for_five_minutes_in_its_session() -> None:
    assert CachePolicy() == CachePolicy(ttl_seconds=300, scope="session", key=None)
    assert CachePolicy(ttl_seconds=math.inf).ttl_seconds == math.inf


@pytest.mark.parametrize(
    "wrong",
    [
        {"ttl_seconds": 0},
        {"ttl_seconds": -1},
        {"ttl_seconds": math.nan},
        {"ttl_seconds": "5"},
        {"ttl_seconds": True},
        {"scope": "everybody"},
        {"scope": None},
        {"key": "id"},
    ],
    ids=str,
)
def test_a_policy_that_cannot_hold_is_refused_where_it_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidToolError) as caught:
        CachePolicy(**wrong)

    assert caught.value.field == "cache"
