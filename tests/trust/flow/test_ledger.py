"""The ledger: labels of results, bounds, and what outlives a process."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spindle.trust.flow import FlowLedger, ledger
from tests.trust.flow import world as w


def test_a_result_has_the_label_of_its_tool_and_of_its_arguments() -> None:
    world = w.World()
    assert world.returns(w.echo, "x", {"text": w.BOB}) == "trusted"
    assert world.returns(w.echo, "x", {"text": "ten years of work"}) == "third-party-public"
    assert world.returns(w.echo, "x", {"text": "secret garden"}) == "third-party-private"
    assert world.returns(w.echo, "x", {"text": "found nowhere"}) == "third-party-private"
    assert world.returns(w.settings, "x", {"text": w.BOB}) == "first-party"
    assert world.ledger.add_result(w.echo, "x", label="third-party-public") == "third-party-public"


def test_a_reader_has_the_label_of_what_it_reads() -> None:
    world = w.World()
    for address, label in (("contacts_1", "trusted"), ("fetch_1", "third-party-public"), ("?", "third-party-private")):
        assert world.returns(w.artifact_grep, "x", {"call_id": address, "pattern": "inbox_1"}) == label


def test_first_party_content_does_not_taint() -> None:
    session = FlowLedger()
    session.add_result(w.settings, "x", call_id="c1")
    assert (session.label, session.is_tainted) == ("first-party", False)


def test_the_first_foreign_result_is_named() -> None:
    assert str(w.World().ledger.tainted_by) == "result fetch_1 of fetch"


def test_the_users_words_are_bounded_and_the_newest_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MAX_USER_CHARS", 1_000)
    session = FlowLedger()
    for number in range(50):
        session.add_user_text(f"word{number} " * 20)
    assert session.user.find("word49") is not None
    assert sum(map(len, session.user_texts)) <= 1_000


def test_results_are_bounded_and_losing_private_ones_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MAX_KEPT_CHARS", 10)
    world = w.World()
    assert world.ledger.other.chars <= 10
    assert world.judge(w.send, {"to": w.BOB, "body": "the number 5566 is mine"})


def test_calls_are_bounded_and_a_forgotten_one_is_as_foreign_as_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MAX_CALLS", 2)
    world = w.World()
    world.returns(w.echo, "x", call_id="c9")
    assert not world.ledger.knows_call("contacts_1")
    assert world.returns(w.artifact_grep, "x", {"call_id": "contacts_1"}) == "third-party-private"


def test_what_was_saved_survives_json() -> None:
    world = w.World()
    world.returns(w.create_file, "f-9", {"text": "x"}, structured={"id": "f-9"})
    saved = json.loads(json.dumps(world.ledger.save()))
    other = FlowLedger()
    other.restore(saved)
    assert other.is_tainted and other.has_made("file", "f-9")  # noqa: PT018  one state
    assert (other.label, other.user_texts) == (world.ledger.label, world.ledger.user_texts)
    assert other.find_vouched(w.BOB) is not None


@pytest.mark.parametrize(
    "saved",
    [
        {},
        {"label": "trusted"},
        {"label": "nonsense", "tainted": False},
        {"label": 3, "tainted": None, "user": 5, "labels": [], "records": 7, "echoes": "x"},
        {"label": "trusted", "tainted": True, "labels": {"c1": "root"}, "records": {"file": None}, "echoes": {}},
    ],
)
def test_what_cannot_be_read_makes_a_ledger_ask_more(saved: dict[str, Any]) -> None:
    session = FlowLedger()
    session.restore(saved)
    assert session.has_lost_private
    session.add_result(w.contacts, w.CONTACTS, call_id="t")
    session.add_result(w.fetch, w.PAGE, call_id="f")
    assert session.find_vouched(w.ALICE) is None  # it may be an echo
    assert session.get_input_label(w.artifact_grep, {"call_id": "c1"}) != "trusted"


@pytest.mark.slow
def test_threads_may_add_while_another_one_searches() -> None:
    session = FlowLedger()

    def add(number: int) -> bool:
        session.add_user_text(f"word{number} " + "filler words " * 500)
        session.add_result(w.fetch, f"page{number} " * 300, call_id=f"c{number}")
        return session.user.find(f"word{number}") is not None and session.other.find(f"page{number}") is not None

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(add, range(40)))
