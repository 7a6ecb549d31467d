from itertools import product
from typing import Any, get_args

import pytest

from spindle.errors import InvalidMediaError
from spindle.media import DerivedText, TrustTier
from spindle.media.labels import cap_trust, validate
from spindle.media.readers import MediaBytesReader

GOOD: dict[str, Any] = {
    "kind": "image",
    "mime_type": "image/png",
    "filename": "a.png",
    "trust_tier": "first-party",
    "modality_hazard": "inert",
    "reader": MediaBytesReader(b""),
}
TIERS: tuple[TrustTier, ...] = get_args(TrustTier)


def test_a_sound_description_passes() -> None:
    validate(GOOD)
    validate({**GOOD, "id": None, "source": None, "stash": {}})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", "picture"),
        ("kind", None),
        ("kind", ["image"]),
        ("mime_type", ""),
        ("mime_type", 5),
        ("mime_type", None),
        ("mime_type", "audio/mpeg"),
        ("mime_type", "text/html"),
        ("filename", ""),
        ("filename", b"a.png"),
        ("trust_tier", "trusted"),
        ("trust_tier", None),
        ("modality_hazard", "none"),
        ("modality_hazard", ""),
        ("reader", None),
        ("reader", object()),
        ("reader", MediaBytesReader),
        ("id", ""),
        ("id", 7),
        ("source", ""),
        ("source", 7),
        ("stash", []),
        ("stash", "text"),
    ],
)
def test_a_bad_value_is_named(name: str, value: Any) -> None:
    with pytest.raises(InvalidMediaError) as caught:
        validate({**GOOD, name: value})

    assert caught.value.fields == (name,)
    assert caught.value.field == name
    assert caught.value.fatal
    assert name in caught.value.message


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_missing_value_is_named(name: str) -> None:
    with pytest.raises(InvalidMediaError) as caught:
        validate({key: value for key, value in GOOD.items() if key != name})

    assert caught.value.fields == (name,)


def test_every_bad_and_missing_value_is_named_at_once() -> None:
    with pytest.raises(InvalidMediaError) as caught:
        validate({"kind": "x", "mime_type": "", "stash": {"a": 1}})

    assert set(caught.value.fields) == {*GOOD, "stash.a"}


@pytest.mark.parametrize(
    ("kind", "mime_type", "fits"),
    [
        ("image", "image/png", True),
        ("image", "application/octet-stream", True),
        ("image", "not a type", True),
        ("image", "audio/mpeg", False),
        ("image", "IMAGE/PNG; q=1", True),
        ("audio", "video/webm", True),
        ("audio", "image/png", False),
        ("video", "application/mp4", True),
        ("video", "text/plain", False),
        ("document", "text/plain", True),
        ("document", "image/tiff", True),
        ("document", "video/mp4", False),
    ],
)
def test_the_kind_and_the_mime_type_must_not_contradict_each_other(kind: str, mime_type: str, fits: bool) -> None:
    description = {**GOOD, "kind": kind, "mime_type": mime_type}
    if fits:
        validate(description)
        return

    with pytest.raises(InvalidMediaError) as caught:
        validate(description)
    assert caught.value.fields == ("mime_type",)


@pytest.mark.parametrize(
    "entry",
    [
        "text",
        None,
        {},
        {"value": "x"},
        {"trust_tier": "first-party"},
        {"value": None, "trust_tier": "first-party"},
        {"value": "x", "trust_tier": "best"},
        {"value": "x", "trust_tier": "first-party", "extra": 1},
        {"value": "x", "trust_tier": "first-party", "derived_from_media": "yes"},
        DerivedText("x", "best"),  # pyright: ignore[reportArgumentType] -- on purpose
        DerivedText(5, "first-party"),  # pyright: ignore[reportArgumentType] -- on purpose
    ],
)
def test_a_bad_entry_of_the_stash_is_named(entry: Any) -> None:
    with pytest.raises(InvalidMediaError) as caught:
        validate({**GOOD, "stash": {"text:caption": entry}})

    assert caught.value.fields == ("stash.text:caption",)


@pytest.mark.parametrize("name", ["", 5, None])
def test_an_entry_needs_a_name(name: Any) -> None:
    with pytest.raises(InvalidMediaError):
        validate({**GOOD, "stash": {name: {"value": "x", "trust_tier": "first-party"}}})


def test_derived_text_is_never_trusted_more_than_its_media() -> None:
    for media_tier, text_tier in product(TIERS, TIERS):
        made = cap_trust({"a": {"value": "x", "trust_tier": text_tier}, "b": DerivedText("y", text_tier)}, media_tier)
        lower = TIERS[max(TIERS.index(media_tier), TIERS.index(text_tier))]

        assert made == {"a": DerivedText("x", lower), "b": DerivedText("y", lower)}
