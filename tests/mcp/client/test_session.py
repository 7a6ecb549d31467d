"""One invalid tool does not cost a server its others."""

from typing import Any

import pytest

from spindle.mcp.client.listing_filter import keep_valid_tools

FINE: dict[str, Any] = {"name": "fine", "inputSchema": {"type": "object"}}
LISTINGS: dict[str, dict[str, Any]] = {
    "2025-11-25": {"tools": []},
    "2026-07-28": {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "public"},
}


@pytest.mark.parametrize("version", LISTINGS)
@pytest.mark.parametrize(
    "odd",
    [{"name": "odd"}, {"name": 3, "inputSchema": {"type": "object"}}, {"name": "odd", "inputSchema": []}, "odd", None],
    ids=["no schema", "no name", "no object", "a text", "nothing"],
)
def test_an_invalid_tool_definition_is_dropped_and_reported(version: str, odd: Any) -> None:
    reported: list[str] = []

    assert keep_valid_tools([FINE, odd, FINE], LISTINGS[version], version, reported.append) == [FINE, FINE]
    assert len(reported) == 1


def test_a_type_that_is_left_out_where_there_must_be_one_means_an_object() -> None:
    tool: dict[str, Any] = {"name": "t", "inputSchema": {}, "outputSchema": {"$ref": "#/$defs/a", "$defs": {"a": {}}}}
    (repaired,) = keep_valid_tools([tool], LISTINGS["2025-11-25"], "2025-11-25", pytest.fail)

    assert repaired["inputSchema"] == {"type": "object"}
    assert repaired["outputSchema"]["type"] == "object"


def test_a_result_that_may_be_any_value_stays_so() -> None:
    tool: dict[str, Any] = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {"enum": [1, 2]}}

    assert keep_valid_tools([tool], LISTINGS["2026-07-28"], "2026-07-28", pytest.fail) == [tool]
