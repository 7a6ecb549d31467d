"""An attacker who knows the rules and has taken over the model: nothing of what he tries runs unasked.

The control group are calls that do what the user wants; none of them is asked about in the same session.
"""

import pytest

from spindle.trust.flow import FlowDecision
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


@pytest.mark.parametrize("attack", [pytest.param(each, id=ascii(each.name)) for each in ATTACKS])
def test_an_attack_is_asked_about(attack: Attack, shared: w.World) -> None:
    decision = judge(attack, shared)
    assert decision.needs_approval
    assert decision.reasons
    assert all(each.isprintable() for each in decision.reasons)


@pytest.mark.parametrize("call", [pytest.param(each, id=ascii(each.name)) for each in HARMLESS])
def test_a_harmless_call_is_not_asked_about(call: Attack, shared: w.World) -> None:
    assert judge(call, shared).reasons == ()


def test_an_attack_is_asked_about_one_turn_later(next_turn: w.World) -> None:
    unasked = [each.name for each in ATTACKS if each.prepare is None and not judge(each, next_turn)]
    assert unasked == []
