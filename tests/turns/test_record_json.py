"""Records survive JSON; how stores use it is in `test_records.py`."""

import pytest

from spindle import CallOutcome, Ok
from spindle.calls import LABELS, Label, ToolCallRecord
from spindle.turns.record_json import from_json, to_json

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("label", [*LABELS, None])
async def test_a_record_keeps_its_label_in_json(label: Label | None) -> None:
    outcome = CallOutcome("c1", "read", "sum", Ok("x", label=label, trusted=label == "trusted"))
    again = from_json("tool_call", await to_json(outcome.to_record()))

    assert isinstance(again, ToolCallRecord)
    assert again.label == label


async def test_a_record_of_an_earlier_version_has_no_label() -> None:
    text = await to_json(CallOutcome("c1", "read", "sum", Ok("x", label="first-party")).to_record())
    again = from_json("tool_call", text.replace(',"label":"first-party"', ""))

    assert isinstance(again, ToolCallRecord)
    assert again.label is None
