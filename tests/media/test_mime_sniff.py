import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.errors import MissingExtraError
from spindle.media.mime import HEAD_BYTES, sniff


def test_each_sample_is_told_by_its_content(samples: dict[str, bytes]) -> None:
    assert {mime_type: sniff(data, is_whole=True) for mime_type, data in samples.items()} == {
        mime_type: mime_type for mime_type in samples
    }


@pytest.mark.parametrize(
    ("text", "mime_type"),
    [
        ("<svg viewBox='0 0 1 1'></svg>", "image/svg+xml"),
        ("<!DOCTYPE svg PUBLIC '-//W3C//DTD SVG 1.1//EN' 'x'><svg/>", "image/svg+xml"),
        ("<!DOCTYPE svg [<!ENTITY a 'b'>]>\n<s:svg xmlns:s='x'/>", "image/svg+xml"),
        ("<!doctype HTML><p>x", "text/html"),
        ("<SCRIPT>alert(1)</SCRIPT>", "text/html"),
        ("<img src=x onerror=alert(1)>", "text/html"),
        ("<?xml version='1.0'?><html xmlns='x'/>", "application/xhtml+xml"),
        ("<?xml version='1.0'?><rss/>", "application/xml"),
        ("<unclosed", "text/plain"),
        ("<!-- never closed", "text/plain"),
        ("< b", "text/plain"),
        ("[link](http://example.com)", "text/plain"),
        ("{not json}", "text/plain"),
        ("[1, 2", "text/plain"),
        ("42", "text/plain"),
        ("BM is how this letter starts", "text/plain"),
        ("MZ too", "text/plain"),
        ("βρῆκα", "text/plain"),
        ("GIF89a=1;//<script>", "text/plain"),
        ("{\\rtf1 hello}", "application/rtf"),
        ("%!PS-Adobe-3.0", "application/postscript"),
        ("\ufeff<html>", "text/html"),
    ],
)
def test_text_is_told_by_how_it_starts(text: str, mime_type: str) -> None:
    assert sniff(text.encode(), is_whole=True) == mime_type


def test_text_of_other_character_sets_is_text() -> None:
    assert sniff("\ufeff<html>".encode("utf-16-le"), is_whole=True) == "text/html"
    assert sniff("Grüße".encode("latin-1"), is_whole=True) == "text/plain"


@pytest.mark.parametrize("data", [b"", b"\x00\x01\x02\x03", bytes(100)])
def test_what_shows_nothing_is_unknown(data: bytes) -> None:
    assert sniff(data, is_whole=True) is None


def test_a_pdf_may_have_something_in_front() -> None:
    assert sniff(b"\x00\x00 junk\n%PDF-1.4\n\x00", is_whole=True) == "application/pdf"


def test_a_cut_through_a_character_or_through_json_does_no_harm() -> None:
    assert sniff(("x" + "ü" * HEAD_BYTES).encode()[:HEAD_BYTES], is_whole=False) == "text/plain"
    assert sniff((b'[{"a": "' + b"b" * HEAD_BYTES)[:HEAD_BYTES], is_whole=False) == "application/json"


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: ("<" + text).encode(errors="replace")))
def test_any_bytes_get_an_answer(data: bytes) -> None:
    for is_whole in (True, False):
        found = sniff(data, is_whole=is_whole)
        assert found is None or found.count("/") == 1


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "filetype", None)

    with pytest.raises(MissingExtraError) as caught:
        sniff(b"\x89PNG\r\n\x1a\n\x00", is_whole=True)

    assert ".[media]" in caught.value.message
    assert sniff(b"<html>", is_whole=True) == "text/html"
