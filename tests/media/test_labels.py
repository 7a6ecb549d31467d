import json
import re
import unicodedata
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.errors import InvalidMediaError
from spindle.media import DerivedText, TrustTier
from spindle.media.labels import MAX_FILENAME_CHARS, cap_trust, safe_filename, safe_mime_type, validate
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


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("photo.png", "photo.png"),
        ("Bericht März (2).pdf", "Bericht März (2).pdf"),
        ("写真.jpeg", "写真.jpeg"),
        ("<b>evil\x00\x1b.png", "bevil.png"),
        ("../../etc/passwd", "etcpasswd"),
        ("..\\..\\boot.ini", "boot.ini"),
        ("C:\\temp\\a.txt", "Ctempa.txt"),
        ("／etc／passwd＜", "etcpasswd"),
        (".htaccess", "htaccess"),
        ("-rf", "rf"),
        ("~root", "root"),
        ("a\nb\r\tc", "abc"),
        ("invoice\u202egnp.exe", "invoicegnp.exe"),
        ("zero\u200b\u2060\ufeffwidth\u3164", "zerowidth"),
        ("tag\U000e0041\U000e007fged", "tagged"),
        ("vs\ufe0f\U000e0101", "vs"),
        ("no\u00a0break", "no break"),
        ("trailing. . ", "trailing"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("com1 .log", "_com1 .log"),
        ("console.log", "console.log"),
        ("lone\ud800surrogate", "lonesurrogate"),
        ("", "file"),
        ("...", "file"),
        ("\u202e", "file"),
        ("/", "file"),
        ("cafe\u0301", "café"),
    ],
)
def test_a_safe_name_is_only_a_name(name: str, safe: str) -> None:
    assert safe_filename(name) == safe


def test_a_long_name_is_cut_and_keeps_its_ending() -> None:
    assert safe_filename("a" * 300 + ".png") == "a" * 252 + ".png"
    assert safe_filename("a" * 300) == "a" * MAX_FILENAME_CHARS
    assert len(safe_filename("a." + "b" * 300)) == MAX_FILENAME_CHARS


def harmless(safe: str) -> bool:
    return (
        0 < len(safe) <= MAX_FILENAME_CHARS
        and not re.search(r'[<>:"/\\|?*\x00-\x1f\x7f]', safe)
        and not safe.startswith((".", "-", "~", " "))
        and not safe.endswith((".", " "))
        and not any(unicodedata.category(letter) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for letter in safe)
        and Path("folder", safe).name == safe
        and Path("folder", safe).parent == Path("folder")
    )


def test_naughty_strings_become_harmless(shared_data: Path) -> None:
    strings: list[str] = json.loads((shared_data / "naughty-strings" / "blns.json").read_text(encoding="utf-8"))

    assert len(strings) > 400
    assert not [name for name in strings if not harmless(safe_filename(name))]
    assert not [name for name in strings if safe_filename(safe_filename(name)) != safe_filename(name)]


@given(
    st.text(max_size=40)
    | st.text(alphabet="./\\ -~conCON1.<>\u202e", max_size=12)
    | st.text(min_size=250, max_size=300)
)
def test_any_name_becomes_harmless_and_stays_so(name: str) -> None:
    safe = safe_filename(name)

    assert harmless(safe)
    assert safe_filename(safe) == safe


@pytest.mark.parametrize(
    ("declared", "safe"),
    [
        ("image/png", "image/png"),
        ("Image/PNG", "image/png"),
        ("text/html; charset=utf-8", "text/html"),
        (" text/plain ", "text/plain"),
        ("application/vnd.api+json", "application/vnd.api+json"),
        ("png", "application/octet-stream"),
        ("image/", "application/octet-stream"),
        ("image/png\n", "application/octet-stream"),
        ("image/png/x", "application/octet-stream"),
        ('image/png" onload="x', "application/octet-stream"),
        ("image/<script>", "application/octet-stream"),
        ("ímage/png", "application/octet-stream"),
        ("", "application/octet-stream"),
        ("a/" + "b" * 200, "application/octet-stream"),
    ],
)
def test_a_mime_type_is_bare_or_unknown(declared: str, safe: str) -> None:
    assert safe_mime_type(declared) == safe
