"""The demonstration for programs: the same facts as in the table, as JSON."""

import json
from functools import partial

import anyio

from spindle.cli.commands.demo import demo_to_json, demonstrate
from spindle.cli.demo_calls import every_call


def test_every_call_is_told_with_what_became_of_it() -> None:
    facts = demo_to_json(anyio.run(partial(demonstrate, every_call())))

    told = json.loads(json.dumps(facts))
    assert [call["tool_call_id"] for call in told["calls"]] == [each.call.tool_call_id for each in every_call()]
    assert {call["code"] for call in told["calls"] if not call["ran"]} >= {"input_invalid", "not_available"}
    assert all(call["code"] is None for call in told["calls"] if call["ok"])
    assert len(told["read_back"]) == 3
    assert told["name_clash"]
