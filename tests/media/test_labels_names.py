import json
import re
import unicodedata
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.media.labels import MAX_FILENAME_CHARS, new_id, safe_filename, safe_mime_type


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


def test_ids_are_uuids_in_order_of_time() -> None:
    ids = [new_id() for _ in range(100)]

    assert {UUID(made).version for made in ids} == {7}
    assert {UUID(made).variant for made in ids} == {UUID(int=0b10 << 62).variant}
    assert len(set(ids)) == 100
    assert [made[:18] for made in ids] == sorted(made[:18] for made in ids)
