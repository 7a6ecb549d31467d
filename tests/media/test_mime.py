import pytest

from spindle.media.mime import MimeCheck, check, sniff

OOXML = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def test_what_is_declared_as_it_is_matches(samples: dict[str, bytes]) -> None:
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
def test_what_the_content_contradicts_does_not_match(declared: str, sniffed: str | None) -> None:
    assert not check(declared, sniffed).matches
