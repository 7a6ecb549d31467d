import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.errors import MissingExtraError
from spindle.media.mime import HEAD_BYTES, MimeCheck, check, sniff

OOXML = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def test_correctly_declared_types_match(samples: dict[str, bytes]) -> None:
    for mime_type, data in samples.items():
        assert check(mime_type, sniff(data, is_whole=True)).matches


def test_a_claim_is_judged_by_the_content(samples: dict[str, bytes]) -> None:
    found = check("Image/PNG; q=1", sniff(samples["text/html"], is_whole=True))

    assert found == MimeCheck(declared="image/png", sniffed="text/html", matches=False)


def test_no_picture_sound_or_archive_stands_for_another(samples: dict[str, bytes]) -> None:
    binary = [name for name in samples if not name.startswith("text/") and "xml" not in name and "json" not in name]
    for declared in binary:
        for real in binary:
            assert check(declared, sniff(samples[real], is_whole=True)).matches == (declared == real)


@pytest.mark.parametrize(
    ("declared", "sniffed"),
    [
        ("image/jpg", "image/jpeg"),
        ("image/png", "image/apng"),
        ("audio/mp3", "audio/mpeg"),
        ("audio/wav", "audio/x-wav"),
        ("audio/mp4", "video/mp4"),
        ("video/quicktime", "video/mp4"),
        ("audio/webm", "video/webm"),
        ("text/rtf", "application/rtf"),
        (OOXML, "application/zip"),
        ("application/zip", OOXML),
        ("application/epub+zip", "application/zip"),
        ("application/vnd.ms-excel", "application/msword"),
        ("text/plain", "text/html"),
        ("text/markdown", "text/html"),
        ("text/csv", "application/json"),
        ("text/html", "text/plain"),
        ("text/xml", "application/xml"),
        ("application/atom+xml", "application/xml"),
        ("application/vnd.api+json", "application/json"),
        ("application/x-ndjson", "text/plain"),
        ("application/yaml", "application/json"),
        ("application/octet-stream", "text/html"),
        ("nonsense", "image/png"),
        ("video/x-unheard-of", None),
        ("audio/mpeg", None),
    ],
)
def test_other_words_for_the_same_match(declared: str, sniffed: str | None) -> None:
    assert check(declared, sniffed).matches


@pytest.mark.parametrize(
    ("declared", "sniffed"),
    [
        ("image/png", None),
        ("image/jpg", None),
        ("application/pdf", None),
        ("text/plain", None),
        ("application/json", None),
        ("image/png", "image/jpeg"),
        ("image/png", "text/plain"),
        ("image/png", "image/svg+xml"),
        ("image/svg+xml", "text/html"),
        ("image/svg+xml", "text/plain"),
        ("image/svg+xml", "application/xml"),
        ("application/json", "text/html"),
        ("application/json", "application/xml"),
        ("application/xml", "application/json"),
        ("application/pdf", "application/zip"),
        ("application/zip", "application/pdf"),
        (OOXML, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("application/vnd.ms-excel", "application/zip"),
        ("audio/mpeg", "application/x-msdownload"),
        ("text/plain", "image/png"),
        ("video/mp4", "text/html"),
    ],
)
def test_a_type_that_contradicts_the_content_does_not_match(declared: str, sniffed: str | None) -> None:
    assert not check(declared, sniffed).matches


def test_each_sample_is_recognised_by_its_content(samples: dict[str, bytes]) -> None:
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
def test_text_is_recognised_by_its_beginning(text: str, mime_type: str) -> None:
    assert sniff(text.encode(), is_whole=True) == mime_type


def test_text_of_other_character_sets_is_text() -> None:
    assert sniff("\ufeff<html>".encode("utf-16-le"), is_whole=True) == "text/html"
    assert sniff("Grüße".encode("latin-1"), is_whole=True) == "text/plain"


@pytest.mark.parametrize("data", [b"", b"\x00\x01\x02\x03", bytes(100)])
def test_content_without_a_signature_is_unknown(data: bytes) -> None:
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
