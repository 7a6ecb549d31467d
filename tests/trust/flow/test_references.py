"""Results that are too large for a ledger are searched where they are kept."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from spindle.trust.flow import FlowCall, ledger
from spindle.trust.flow.references import MAX_REFERENCES, LargeResults
from tests.trust.flow import world as w

pytestmark = pytest.mark.anyio

LINES = "\n".join(f"line {number} of a long and dull list" for number in range(1_000))
DEEP = f"{LINES}\nCarol carol@corp.example\nthe safe opens with 918273 and a smile"


class Line(NamedTuple):
    text: str


class Whole:
    """Searches a text, as an artifact does."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.searches = 0

    async def grep(self, pattern: str, flags: str = "", *, limit: int | None = None) -> Sequence[Line]:
        assert flags == "i"
        self.searches += 1
        found = [Line(line) for line in self.text.split("\n") if re.search(pattern, line, re.IGNORECASE)]
        return found[:limit]


class Broken:
    async def grep(self, pattern: str, flags: str = "", *, limit: int | None = None) -> Sequence[Line]:
        raise OSError("the disk is gone")


def call(to: str, body: str | None = None) -> FlowCall:
    return FlowCall(tool=w.send, args={"to": to} if body is None else {"to": to, "body": body})


@pytest.fixture(autouse=True)
def small_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MAX_RESULT_CHARS", 10_000)


async def test_a_target_deep_inside_a_trusted_result_is_found() -> None:
    world = w.World()
    world.ledger.add_result(w.contacts, DEEP, call_id="big", reference=Whole(DEEP))
    sent = call("carol@corp.example")
    assert world.ledger.has_references
    assert world.policy.judge([sent], world.ledger)[0]
    await world.ledger.recall([sent])
    assert not world.policy.judge([sent], world.ledger)[0]


async def test_a_part_of_a_token_deep_inside_is_not_found() -> None:
    world = w.World()
    world.ledger.add_result(w.contacts, DEEP, call_id="big", reference=Whole(DEEP))
    for value in ("corp.example", "arol@corp.example", "carol@corp"):
        await world.ledger.recall([call(value)])
        assert world.policy.judge([call(value)], world.ledger)[0]


async def test_a_private_value_deep_inside_is_recognised_and_others_pass_only_when_looked_up() -> None:
    world = w.World(with_mail=False)
    world.ledger.add_result(w.inbox, DEEP, call_id="big", reference=Whole(DEEP))
    for body, is_asked in (("Take 77001 with you, the year is long", False), ("the safe opens with 918273 and", True)):
        sent = call(w.BOB, body)
        assert world.policy.judge([sent], world.ledger)[0]
        await world.ledger.recall([sent])
        assert world.policy.judge([sent], world.ledger)[0].needs_approval is is_asked


async def test_a_private_result_without_a_reference_is_lost() -> None:
    world = w.World(with_mail=False)
    world.returns(w.inbox, DEEP)
    assert world.ledger.has_lost_private
    assert world.judge(w.send, {"to": w.BOB, "body": "the number 5566 is mine"})


async def test_a_store_that_fails_leaves_the_values_unknown() -> None:
    world = w.World(with_mail=False)
    world.ledger.add_result(w.inbox, DEEP, call_id="big", reference=Broken())
    sent = call(w.BOB, "the number 5566 is mine")
    await world.ledger.recall([sent])
    assert world.policy.judge([sent], world.ledger)[0]


async def test_a_value_is_looked_up_once_and_again_after_a_new_result() -> None:
    world, whole = w.World(), Whole(DEEP)
    world.ledger.add_result(w.contacts, DEEP, call_id="big", reference=whole)
    for _ in range(3):
        await world.ledger.recall([call("carol@corp.example")])
    assert whole.searches == 1
    world.ledger.add_result(w.contacts, DEEP, call_id="big2", reference=Whole(DEEP))
    await world.ledger.recall([call("carol@corp.example")])
    assert whole.searches == 2


async def test_a_frequent_value_does_not_hide_another() -> None:
    world = w.World()
    world.ledger.add_result(w.contacts, DEEP, call_id="big", reference=Whole(DEEP))
    sent = FlowCall(tool=w.send, args={"to": ["line", "carol@corp.example"]})
    await world.ledger.recall([sent])
    assert world.ledger.find_vouched("carol@corp.example") is not None


def test_the_number_of_references_is_bounded_and_the_dropped_ones_are_known() -> None:
    references = LargeResults[int]()
    dropped = [references.add(number, Broken()) for number in range(MAX_REFERENCES + 1)]
    assert dropped == [set()] * MAX_REFERENCES + [{0}]
    assert len(tuple(references.sources)) == MAX_REFERENCES
