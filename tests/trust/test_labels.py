"""Nothing climbs: what is made of untrusted things is untrusted."""

from collections.abc import Sequence
from dataclasses import FrozenInstanceError, dataclass
from itertools import pairwise, permutations
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle import CallOutcome, Err, Ok, Tool
from spindle.errors import InvalidTrustError
from spindle.media import Media, TrustTier
from spindle.trust.labels import (
    Label,
    SinkPolicy,
    derived_trust,
    is_tainting,
    join,
    label_of,
    label_of_record,
    media_label,
    read_label,
)

LABELS: tuple[Label, ...] = get_args(Label)
SOME = st.sampled_from(LABELS)


def picture(tier: TrustTier) -> Media:
    return Media.from_bytes(
        b"x",
        kind="image",
        mime_type="image/png",
        filename="x.png",
        trust_tier=tier,
        modality_hazard="opaque-perceptual",
    )


def test_the_labels_stand_in_a_row_above_the_tiers_of_media() -> None:
    assert ("trusted", *get_args(TrustTier)) == LABELS
    assert [join(*pair) for pair in pairwise(LABELS)] == list(LABELS[1:])


@given(SOME, SOME, SOME)
def test_a_join_is_that_of_a_lattice(a: Label, b: Label, c: Label) -> None:
    assert join(a, a) == a == join(a)
    assert join(a, "trusted") == a
    assert join(a, join(b, c)) == join(join(a, b), c) == join(a, b, c)
    assert {join(*order) for order in permutations((a, b, c))} == {join(a, b, c)}


@given(st.lists(SOME, min_size=1))
def test_a_derived_value_is_trusted_only_if_all_sources_are(labels: list[Label]) -> None:
    assert (join(*labels) == "trusted") == all(label == "trusted" for label in labels)


@pytest.mark.parametrize("labels", [(), ("Trusted",), ("trusted", ""), (None,), (True,), ([],)])
def test_a_value_that_is_not_a_label_is_refused(labels: Any) -> None:
    with pytest.raises(InvalidTrustError) as caught:
        join(*labels)

    assert caught.value.field == "labels"


def test_a_text_is_trusted_when_its_tool_and_its_record_say_so() -> None:
    assert label_of(Ok("x", trusted=True), tool_trusted=True) == "trusted"
    assert label_of(Ok("x", trusted=True), tool_trusted=False) == "third-party-private"
    assert label_of(Ok("x", trusted=False), tool_trusted=True) == "third-party-private"


@pytest.mark.parametrize("tool_trusted", [True, False])
def test_an_error_is_never_trusted(tool_trusted: bool) -> None:
    assert label_of(Err("execution_failed", "x"), tool_trusted=tool_trusted) == "third-party-private"


@pytest.mark.parametrize("provenance", LABELS)
def test_the_origin_of_a_text_labels_it_but_never_makes_it_trusted(provenance: Label) -> None:
    expected = "first-party" if provenance == "trusted" else provenance

    assert label_of(Ok("x"), tool_trusted=False, provenance=provenance) == expected


def test_media_lower_the_label_of_a_result_and_never_raise_it() -> None:
    ours, public = picture("first-party"), picture("third-party-public")

    assert label_of(Ok("x", media=(ours,), trusted=True), tool_trusted=True) == "trusted"
    assert label_of(Ok("x", media=(ours, public), trusted=True), tool_trusted=True) == "third-party-public"
    assert label_of(Ok("x", media=(ours,)), tool_trusted=False) == "third-party-private"


def test_media_that_claim_more_than_a_tier_are_not_believed() -> None:
    class Claimant:
        trust_tier = "trusted"

    assert media_label(Claimant()) == "third-party-private"
    assert media_label(object()) == "third-party-private"
    assert media_label(picture("first-party")) == "trusted"


def test_a_trusted_reader_does_not_launder_an_untrusted_artifact() -> None:
    assert derived_trust(tool_trusted=True, sources=[True, "trusted"])
    assert not derived_trust(tool_trusted=True, sources=[True, False])
    assert not derived_trust(tool_trusted=True, sources=["trusted", "first-party"])
    assert not derived_trust(tool_trusted=False, sources=[True])


@dataclass(frozen=True)
class Facts:
    """A tool, as far as a policy looks at it."""

    name: str
    read_only: bool = False
    trusted: bool = True


POLICY = SinkPolicy(["send_mail", "peek"])
SEND, FETCH, CLOCK = Facts("send_mail"), Facts("fetch", trusted=False), Facts("clock")


def test_a_dangerous_tool_needs_approval_in_a_tainted_turn() -> None:
    assert POLICY.needs_approval(SEND, tainted=True, batch=[SEND])
    assert not POLICY.needs_approval(SEND, tainted=False, batch=[SEND])


def test_tools_that_only_read_or_are_not_named_never_need_it() -> None:
    assert not POLICY.needs_approval(Facts("peek", read_only=True), tainted=True, batch=[])
    assert not POLICY.needs_approval(Facts("write_file"), tainted=True, batch=[])


def test_an_untrusted_call_beside_it_is_enough_in_any_order() -> None:
    for batch in permutations([SEND, FETCH, CLOCK]):
        assert POLICY.needs_approval(SEND, tainted=False, batch=batch)
        assert dict(zip(batch, POLICY.judge(batch, tainted=False), strict=True)) == {
            SEND: True,
            FETCH: False,
            CLOCK: False,
        }


def test_trusted_calls_beside_it_change_nothing() -> None:
    assert POLICY.judge([SEND, CLOCK, SEND], tainted=False) == (False, False, False)


def test_a_dangerous_tool_that_is_itself_untrusted_taints_others_and_not_itself() -> None:
    send = Facts("send_mail", trusted=False)

    assert POLICY.judge([send], tainted=False) == (False,)
    assert POLICY.judge([send, send], tainted=False) == (True, True)


@given(
    st.lists(
        st.builds(Facts, st.sampled_from(["send_mail", "peek", "fetch"]), st.booleans(), st.booleans()), max_size=5
    ),
    st.booleans(),
)
def test_judging_a_batch_is_judging_each_call(batch: Sequence[Facts], tainted: bool) -> None:
    calls = [Facts(each.name, each.read_only, each.trusted) for each in batch]

    alone = tuple(POLICY.needs_approval(each, tainted=tainted, batch=iter(calls)) for each in calls)

    assert POLICY.judge(iter(calls), tainted=tainted) == alone


def test_a_tool_has_the_facts_that_a_policy_asks_for() -> None:
    def handle(args: Any, ctx: Any, meta: Any) -> str:
        return ""

    tool = Tool(name="send_mail", description="Send.", input_schema={"type": "object"}, handler=handle)

    assert POLICY.is_dangerous(tool)


def test_a_policy_does_not_change() -> None:
    names = ["send_mail"]
    policy = SinkPolicy(names)
    names.clear()

    assert policy == SinkPolicy({"send_mail"})
    with pytest.raises(FrozenInstanceError):
        policy.dangerous = frozenset()  # pyright: ignore[reportAttributeAccessIssue]  the test is that it raises


@pytest.mark.parametrize("dangerous", ["send_mail", None, 3, [""], [3], b"x"])
def test_a_policy_without_tool_names_is_refused(dangerous: Any) -> None:
    with pytest.raises(InvalidTrustError) as caught:
        SinkPolicy(dangerous)

    assert caught.value.field == "dangerous"


def outcome(result: Ok | Err, *, attempts: int) -> CallOutcome:
    return CallOutcome("c1", "fetch", "0" * 64, result, attempts=attempts)


def test_untrusted_results_and_the_errors_of_handlers_taint_a_turn() -> None:
    assert is_tainting(outcome(Ok("x"), attempts=1))
    assert is_tainting(outcome(Ok("x"), attempts=0))
    assert is_tainting(outcome(Err("denied", "x"), attempts=1))
    assert is_tainting(outcome(Err("execution_failed", "x"), attempts=0))


def test_trusted_results_and_refusals_do_not_taint_it() -> None:
    assert not is_tainting(outcome(Ok("x", trusted=True), attempts=1))
    assert not is_tainting(outcome(Err("denied", "x"), attempts=0))


def outcome_of(result: Ok | Err, attempts: int = 1) -> CallOutcome:
    return CallOutcome("c1", "read", "sum", result, attempts=attempts)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (Ok("x", label="first-party"), False),
        (Ok("x", label="third-party-public"), True),
        (Ok("x", label="third-party-private"), True),
        (Ok("x", trusted=True, label="trusted"), False),
        (Ok("x", trusted=True), False),
        (Ok("x"), True),
        (Ok("x", label="trusted"), True),
        (Ok("x", trusted=True, label="third-party-public"), True),
    ],
)
def test_a_result_taints_by_its_label(result: Ok, expected: bool) -> None:
    assert is_tainting(outcome_of(result)) is expected


@given(SOME, st.booleans(), st.booleans())
def test_the_label_of_a_result_is_never_above_its_own(label: Label, trusted: bool, tool_trusted: bool) -> None:
    found = label_of(Ok("x", trusted=trusted, label=label), tool_trusted=tool_trusted)

    assert join(found, label) == found
    assert found != "trusted" or (trusted and tool_trusted)


@pytest.mark.parametrize(
    ("given_label", "trusted", "expected"),
    [
        (None, True, "trusted"),
        (None, False, "third-party-private"),
        ("first-party", False, "first-party"),
        ("trusted", True, "trusted"),
        ("trusted", False, "third-party-private"),
        ("third-party-public", True, "third-party-public"),
        ("Trusted", True, "third-party-private"),
        (["trusted"], True, "third-party-private"),
    ],
)
def test_a_label_that_was_kept_is_read_strictly(given_label: object, trusted: bool, expected: str) -> None:
    assert read_label(given_label, trusted=trusted) == expected


def test_a_record_keeps_the_label_of_its_result() -> None:
    kept = outcome_of(Ok("x", label="first-party")).to_record()
    failed = outcome_of(Err("execution_failed", "no")).to_record()

    assert (kept.label, label_of_record(kept)) == ("first-party", "first-party")
    assert (failed.label, label_of_record(failed)) == (None, "third-party-private")
    assert label_of_record(outcome_of(Ok("x", trusted=True)).to_record()) == "trusted"


def test_a_tool_that_reads_own_data_taints_no_batch() -> None:
    def make(name: str, **options: Any) -> Tool:
        return Tool(name=name, description="d", input_schema={"type": "object"}, handler=print, **options)

    send, own, foreign = make("send"), make("own", output="first-party"), make("foreign", output="third-party-public")
    policy = SinkPolicy(["send"])

    assert policy.judge([send, own], tainted=False) == (False, False)
    assert policy.judge([send, foreign], tainted=False) == (True, False)
    assert not policy.needs_approval(send, tainted=False, batch=[send, own])
    assert policy.needs_approval(send, tainted=False, batch=[send, foreign])
