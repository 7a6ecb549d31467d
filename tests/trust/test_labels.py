"""Nothing climbs: what is made of untrusted things is untrusted."""

from itertools import pairwise, permutations
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle import Err, Ok
from spindle.errors import InvalidTrustError
from spindle.media import Media, TrustTier
from spindle.trust.labels import Label, derived_trust, is_trusted, join, label_of, media_label

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
def test_what_is_derived_is_trusted_only_if_all_it_came_from_is(labels: list[Label]) -> None:
    assert is_trusted(join(*labels)) == all(label == "trusted" for label in labels)


@pytest.mark.parametrize("labels", [(), ("Trusted",), ("trusted", ""), (None,), (True,), ([],)])
def test_what_is_no_label_is_refused(labels: Any) -> None:
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
def test_where_a_text_comes_from_labels_it_but_never_makes_it_trusted(provenance: Label) -> None:
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

    assert media_label(Claimant(), tool_trusted=True) == "third-party-private"
    assert media_label(object(), tool_trusted=True) == "third-party-private"
    assert media_label(picture("first-party"), tool_trusted=False) == "first-party"


def test_a_trusted_reader_does_not_launder_an_untrusted_artifact() -> None:
    assert derived_trust(tool_trusted=True, sources=[True, "trusted"])
    assert not derived_trust(tool_trusted=True, sources=[True, False])
    assert not derived_trust(tool_trusted=True, sources=["trusted", "first-party"])
    assert not derived_trust(tool_trusted=False, sources=[True])
