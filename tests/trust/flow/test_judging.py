"""The sentences of a policy, its directory and readers, and inputs that were made to be slow."""

import time
from dataclasses import replace

import pytest

from spindle.trust import SinkPolicy
from spindle.trust.flow import FlowCall, FlowLedger, FlowPolicy, ToolFlow
from spindle.trust.flow.identifiers import find_identifiers
from tests.trust.flow import world as w


def test_a_reason_names_the_value_and_its_source() -> None:
    assert w.World().judge(w.send, {"to": w.EVIL_MAIL, "body": f"see {w.EVIL_URL}"}).reasons == (
        "to 'mallory@evil.example' appears only in result fetch_1 of fetch",
    )


def test_a_reason_names_a_foreign_identifier_in_a_body() -> None:
    (reason,) = w.World().judge(w.send, {"to": w.BOB, "body": f"write to {w.EVIL_MAIL}!"}).reasons
    assert reason == "body contains 'mallory@evil.example', which appears only in result fetch_1 of fetch"


def test_a_body_without_a_target_is_asked_about_only_for_foreign_identifiers() -> None:
    world = w.World()
    assert not world.judge(w.write_note, {"text": "Your login code came from the mayor"})
    assert world.judge(w.write_note, {"text": f"mail {w.EVIL_MAIL}"})


def test_the_directory_vouches_for_whole_values_by_role_and_kind() -> None:
    policy = FlowPolicy(
        directory={
            "target": ["ops@corp.example", "https://corp.example/Hook"],
            "setting": ["urgent", "9999"],
            "file": ["f-77"],
            "content": ["Weekly greetings to mallory@evil.example"],
        }
    )
    world = w.World(policy=policy)
    for tool, args, is_asked in (
        (w.send, {"to": "OPS@corp.example"}, False),
        (w.send, {"to": "xops@corp.example"}, True),
        (w.open_url, {"url": "https://CORP.example/Hook"}, False),
        (w.open_url, {"url": "https://corp.example/hook"}, True),
        (w.pay, {"account": w.IBAN, "amount": 9999}, False),
        (w.move_file, {"file": "f-77"}, False),
        (w.send, {"to": w.ALICE, "body": "Weekly greetings to mallory@evil.example"}, False),
    ):
        assert world.judge(tool, args).needs_approval is is_asked


@pytest.mark.parametrize(("readers", "is_asked"), [([w.BOB], False), (["*"], False), ([w.ALICE], True), ([], True)])
def test_values_of_a_private_source_go_to_its_readers(readers: list[str], is_asked: bool) -> None:
    world = w.World(policy=FlowPolicy(readers={"inbox": readers}))
    decision = world.judge(w.send, {"to": w.BOB, "body": "The rent is 73,500"})
    assert decision.needs_approval is is_asked


def test_readers_also_restrict_a_source_that_is_not_private() -> None:
    call = {"to": w.BOB, "body": "They say that the old bridge opens again in May after ten years"}
    assert not w.World(with_mail=False).judge(w.send, call)
    assert w.World(with_mail=False, policy=FlowPolicy(readers={"fetch": [w.ALICE]})).judge(w.send, call)


def test_a_default_of_another_type_is_not_a_default() -> None:
    tool = ToolFlow(name="act", defaults={"n": 1, "on": False})
    world = w.World()
    assert world.judge(tool, {"n": True}).reasons != world.judge(tool, {"n": 1}).reasons
    assert "was not said" in world.judge(tool, {"on": 0}).reasons[0]


def test_a_sink_policy_judges_calls_by_a_ledger_with_reasons() -> None:
    policy, call = SinkPolicy(["send"]), FlowCall(tool=w.send, args={"to": w.BOB})
    (decision,) = policy.judge([call], w.World().ledger)
    assert "result fetch_1 of fetch" in decision.reasons[0]
    assert not policy.judge([call], FlowLedger())[0]
    beside = policy.judge([call, FlowCall(tool=w.fetch), FlowCall(tool=w.contacts)], FlowLedger())
    assert [each.needs_approval for each in beside] == [True, False, False]
    assert not policy.judge([FlowCall(tool=replace(w.send, read_only=True))], w.World().ledger)[0]


@pytest.mark.parametrize(
    "unit", ["a", "1", "a.", "a-", "1 ", "a@", "%4", "( ", "aA", "1,", "\u0301", "a:", "[dot]", "one "]
)
def test_looking_for_identifiers_takes_linear_time(unit: str) -> None:
    def measure(chars: int) -> float:
        text = (unit * chars)[:chars] + "!\u00e9"
        start = time.process_time()
        find_identifiers(text)
        return time.process_time() - start

    assert measure(16_000) < 30 * measure(1_000) + 0.3  # quadratic would be 256 times as much
