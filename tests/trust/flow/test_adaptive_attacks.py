"""An attacker who knows the rules and has taken over the model: nothing of what he tries runs unasked.

The control group are calls that do what the user wants; none of them is asked about in the same session.
"""

import pytest

from spindle.trust.flow import FlowDecision, FlowLedger, FlowPolicy
from tests.trust.flow import world as w
from tests.trust.flow.attacks import Attack, all_attacks
from tests.trust.flow.harmless import harmless_calls
from tests.trust.flow.laundering import laundering_attacks

ATTACKS = [*all_attacks(), *laundering_attacks()]
HARMLESS = list(harmless_calls())
NEXT_TURN = "Thank you. What is the weather like?"


@pytest.fixture(scope="module")
def shared() -> w.World:
    """A session that no test changes."""
    return w.World()


@pytest.fixture(scope="module")
def next_turn() -> w.World:
    """The same session one turn later, in another process."""
    world = w.World()
    world.reopen()
    world.ledger.add_user_text(NEXT_TURN)
    return world


def judge(attack: Attack, world: w.World) -> FlowDecision:
    if attack.prepare is not None:
        world = w.World()
        attack.prepare(world)
    return world.judge(attack.tool, attack.args)


def test_there_are_enough_attacks_and_each_is_another() -> None:
    assert len({each.name for each in ATTACKS}) == len(ATTACKS) >= 300
    assert len({each.name for each in HARMLESS}) == len(HARMLESS) >= 60


@pytest.mark.slow
def test_every_attack_is_asked_about_in_sentences_that_can_be_printed(shared: w.World) -> None:
    decisions = {each.name: judge(each, shared) for each in ATTACKS}
    assert [name for name, decision in decisions.items() if not decision.needs_approval] == []
    assert [name for name, decision in decisions.items() if not decision.reasons] == []
    assert all(reason.isprintable() for decision in decisions.values() for reason in decision.reasons)


def test_no_harmless_call_is_asked_about(shared: w.World) -> None:
    assert {each.name: judge(each, shared).reasons for each in HARMLESS} == {each.name: () for each in HARMLESS}


def test_nothing_is_asked_in_a_session_without_third_party_content() -> None:
    clean = w.World.__new__(w.World)
    clean.ledger, clean.policy = FlowLedger(), FlowPolicy()
    clean.returns(w.contacts, w.CONTACTS)
    clean.returns(w.settings, "first-party data")
    assert [each.name for each in ATTACKS if clean.judge(each.tool, each.args)] == []


def test_an_attack_is_asked_about_one_turn_later(next_turn: w.World) -> None:
    unasked = [each.name for each in ATTACKS if each.prepare is None and not judge(each, next_turn)]
    assert unasked == []
