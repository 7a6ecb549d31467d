"""Results held to the schema their server declared, by our own validator."""

from typing import Any

import pytest

from spindle.errors import InvalidToolError
from spindle.mcp.client.tools import build_output_check

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


def test_what_fits_passes() -> None:
    assert build_output_check(POINT, tool="t")({"x": 1}, True) is None


@pytest.mark.parametrize("value", [{"x": "one"}, {}, [1], None], ids=repr)
def test_what_does_not_fit_is_said(value: Any) -> None:
    assert "output schema" in (build_output_check(POINT, tool="t")(value, True) or "")


def test_what_is_missing_is_said() -> None:
    assert "no structured content" in (build_output_check(POINT, tool="t")(None, False) or "")


@pytest.mark.parametrize(("schema", "value"), [({"type": "array"}, [1]), ({"type": "null"}, None), ({}, 3)], ids=repr)
def test_a_result_may_be_any_value(schema: dict[str, Any], value: Any) -> None:
    assert build_output_check(schema, tool="t")(value, True) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strin"},
        {"$ref": "http://elsewhere.example/schema"},
        {
            "$defs": {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)} | {"d40": {}},
            "$ref": "#/$defs/d0",
        },
    ],
    ids=["no schema", "elsewhere", "doubling"],
)
def test_a_schema_that_cannot_be_used_is_refused_at_once(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidToolError) as caught:
        build_output_check(schema, tool="t")

    assert caught.value.field == "output_schema"
