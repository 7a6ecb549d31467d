"""Laws of information flow, for any texts and any calls."""

import json
from string import printable

from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.trust.flow import Content, FlowCall, FlowLedger, FlowPolicy, Ref, Setting, Target, ToolFlow
from spindle.trust.flow.text_index import TextIndex
from spindle.trust.flow.tokens import is_alone, normalize
from tests.trust.flow import world as w

FEW = settings(max_examples=25, deadline=None)
LETTERS = st.text("abA1.@/-' ,\n\u0301\u200b", max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([w.BOB, w.URL, "2026-05-16"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
ARGS = st.dictionaries(
    st.sampled_from(["to", "file", "amount", "body", "other", "a.b", "*"]) | st.text(), JSON, max_size=4
)
TOOL = ToolFlow(
    name="act", roles={"to": Target(), "file": Ref("file"), "amount": Setting(), "body": Content(), "other.*": Target()}
)
PARTS = st.lists(
    st.sampled_from([w.BOB, w.URL, w.IBAN, "250", "the", "page", "report", "x@y.example", "https://y.example", "9999"])
    | st.text(printable, max_size=8),
    max_size=6,
).map(" ".join)


def find_slowly(texts: list[str], value: str) -> bool:
    """Look at every place of every text."""
    plain = normalize(value)
    for text in map(normalize, texts):
        for start in range(len(text)):
            part = text[start : start + len(plain)]
            if part.lower() == plain.lower() and is_alone(text, start, start + len(plain)):
                return True
    return False


@FEW
@given(st.lists(LETTERS, max_size=4), st.text("abA", min_size=1, max_size=3))
def test_a_word_is_found_if_and_only_if_it_stands_alone(texts: list[str], value: str) -> None:
    index = TextIndex[int]()
    for number, text in enumerate(texts):
        index.add(text, number)
    assert (index.find(value) is not None) == find_slowly(texts, value)


@FEW
@given(st.integers(0, 17_000), st.integers(0, 40), st.sampled_from([" ", ", ", "\n\n  ", "x", ".", "\t", "/"]))
def test_a_value_is_found_at_every_edge_of_a_block(before: int, blanks: int, edge: str) -> None:
    value = "bob@corp.example"
    text = ("w" * 7 + " ") * (before // 8) + "y" * (before % 8) + edge + " " * blanks + value + edge + "z " * 2_000
    index = TextIndex[int]()
    index.add(text, 1)
    plain = normalize(text)
    start = plain.index(value)
    assert (index.find(value) is not None) == is_alone(plain, start, start + len(value))


@FEW
@given(ARGS)
def test_judging_never_raises(args: dict[str, object]) -> None:
    for tool in (TOOL, w.call_hook, w.open_url):
        (decision,) = FlowPolicy().judge([FlowCall(tool=tool, args=args)], WORLD.ledger)
        assert decision.needs_approval == bool(decision.reasons)
    WORLD.ledger.get_input_label(TOOL, args)


WORLD = w.World()


def build(user: str, trusted: str, foreign: list[str]) -> FlowLedger:
    ledger = FlowLedger()
    ledger.add_user_text(user)
    ledger.add_result(w.contacts, trusted, call_id="t")
    for number, text in enumerate(foreign):
        ledger.add_result(w.inbox, text, call_id=f"f{number}")
    return ledger


def asks(ledger: FlowLedger, value: str) -> list[bool]:
    calls = [
        FlowCall(tool=w.send, args={"to": value}),
        FlowCall(tool=w.send, args={"to": w.BOB, "body": value}),
        FlowCall(tool=w.pay, args={"account": w.IBAN, "amount": value}),
    ]
    return [each.needs_approval for each in FlowPolicy().judge(calls, ledger)]


@FEW
@given(PARTS, PARTS, st.lists(PARTS, min_size=1, max_size=3), PARTS, PARTS)
def test_more_third_party_text_never_asks_less(
    user: str, trusted: str, foreign: list[str], more: str, value: str
) -> None:
    before = asks(build(user, trusted, foreign), value)
    after = asks(build(user, trusted, [*foreign, more]), value)
    assert all(later or not earlier for earlier, later in zip(before, after, strict=True))


@FEW
@given(PARTS, PARTS, PARTS, PARTS, PARTS)
def test_more_words_never_take_back_what_was_vouched_for(
    user: str, trusted: str, more: str, foreign: str, value: str
) -> None:
    ledger = build(user, trusted, [foreign])
    was_vouched = ledger.find_vouched(value) is not None
    ledger.add_user_text(more)
    ledger.add_result(w.contacts, more, call_id="t2")
    ledger.add_result(w.fetch, more, call_id="f9")
    assert ledger.find_vouched(value) is not None or not was_vouched


@FEW
@given(PARTS, PARTS, st.lists(PARTS, min_size=1, max_size=2), PARTS, PARTS)
def test_saving_and_restoring_never_asks_less(
    user: str, trusted: str, foreign: list[str], written: str, value: str
) -> None:
    ledger = build(user, trusted, foreign)
    ledger.add_result(w.write_note, "saved", args={"text": written}, call_id="n1")
    other = FlowLedger()
    other.restore(json.loads(json.dumps(ledger.save())))
    for each in (ledger, other):
        each.add_result(w.read_notes, written, call_id="n2")
    before, after = asks(ledger, value), asks(other, value)
    assert all(later or not earlier for earlier, later in zip(before, after, strict=True))
