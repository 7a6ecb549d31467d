"""Detect the MIME type of content and check the declared type against it."""

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import jiter

from spindle.extras import needs_extra
from spindle.media.labels import UNKNOWN_MIME_TYPE, safe_mime_type


@dataclass(frozen=True, kw_only=True, slots=True)
class MimeCheck:
    """The declared and the detected MIME type, and whether they match."""

    declared: str
    """The bare type in lower case."""
    sniffed: str | None
    """`None` if the type cannot be detected."""
    matches: bool


def check(declared: str, sniffed: str | None) -> MimeCheck:
    """Compare a declared MIME type with the detected one."""
    bare = safe_mime_type(declared)
    return MimeCheck(declared=bare, sniffed=sniffed, matches=_is_compatible(bare, sniffed))


def _families(*groups: str) -> Mapping[str, frozenset[str]]:
    """Map each type to its aliases and the types with the same signature."""
    families: dict[str, frozenset[str]] = {}
    for group in groups:
        members = frozenset(group.split())
        for member in members:
            families[member] = families.get(member, frozenset()) | members
    return families


_FAMILIES: Final = _families(
    "image/jpeg image/jpg image/pjpeg",
    "image/png image/apng image/x-png",
    "image/bmp image/x-bmp image/x-ms-bmp",
    "image/x-icon image/vnd.microsoft.icon",
    "image/tiff image/x-canon-cr2 image/x-adobe-dng image/x-nikon-nef image/x-sony-arw",
    "image/heic image/heif image/heic-sequence image/heif-sequence image/avif image/avif-sequence",
    "image/jpx image/jp2 image/jpm",
    "image/vnd.adobe.photoshop image/x-photoshop application/x-photoshop",
    "image/vnd.ms-photo image/jxr",
    "application/dicom image/dicom-rle",
    "audio/mpeg audio/mp3 audio/x-mp3 audio/mpeg3",
    "audio/aac audio/x-aac audio/aacp",
    "audio/x-wav audio/wav audio/wave audio/vnd.wave",
    "audio/x-flac audio/flac",
    "audio/x-aiff audio/aiff",
    "audio/midi audio/x-midi",
    "audio/ogg video/ogg application/ogg audio/opus audio/vorbis",
    "audio/mp4 video/mp4 application/mp4 video/x-m4v audio/x-m4a audio/m4a video/quicktime "
    "video/3gpp audio/3gpp video/3gpp2 audio/3gpp2",
    "video/webm audio/webm video/x-matroska audio/x-matroska",
    "video/x-msvideo video/avi video/msvideo",
    "video/x-ms-wmv audio/x-ms-wma video/x-ms-asf",
    "application/pdf application/x-pdf",
    "application/rtf text/rtf",
    "application/gzip application/x-gzip",
    "application/x-bzip2 application/x-bzip",
    "application/x-rar-compressed application/vnd.rar application/x-rar",
    "application/x-sqlite3 application/vnd.sqlite3",
    "application/font-woff font/woff font/woff2",
    "application/font-sfnt font/sfnt font/ttf font/otf",
    "application/msword application/vnd.ms-excel application/vnd.ms-powerpoint application/vnd.ms-outlook "
    "application/x-ole-storage",
)

_SIGNED_TYPES: Final = (
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/bmp",
    "image/tiff",
    "application/pdf",
    "application/zip",
    "application/gzip",
)
"""Types whose files always have a signature: content without one cannot be of these types."""

_ZIP: Final = frozenset({"application/zip", "application/x-zip-compressed"})
_IN_A_ZIP: Final = re.compile(
    r"application/(?:java-archive|.+\+zip|vnd\.openxmlformats-.+|vnd\.oasis\.opendocument\..+|vnd\.ms-.+\.macroenabled\.12)"
)
_TEXT_WORDS: Final = re.compile(
    r"\b(?:json|jsonl|ndjson|json5|xml|xml-dtd|yaml|toml|javascript|ecmascript|typescript|sql|csv|sh|graphql|mbox)$"
)
_XML_WORDS: Final = re.compile(r"\b(?:xml|xml-dtd)$")


def _is_compatible(declared: str, sniffed: str | None) -> bool:
    if declared in (sniffed, UNKNOWN_MIME_TYPE):
        return True
    if sniffed is None:
        return not is_text_type(declared) and not _is_alias(declared, _SIGNED_TYPES)
    if is_text_type(sniffed):
        return _is_text_compatible(declared, sniffed)
    if sniffed in _ZIP:
        # The start of an archive does not always show its format.
        return declared in _ZIP or bool(_IN_A_ZIP.fullmatch(declared))
    return _is_alias(declared, (sniffed,)) or (declared in _ZIP and bool(_IN_A_ZIP.fullmatch(sniffed)))


def _is_text_compatible(declared: str, sniffed: str) -> bool:
    if declared.startswith("text/"):
        return True
    match sniffed:
        case "image/svg+xml" | "application/xml" | "application/xhtml+xml":
            return bool(_XML_WORDS.search(declared)) and declared != "image/svg+xml"
        case "text/plain":
            return is_text_type(declared) and declared != "image/svg+xml"
        case "application/json":
            return is_text_type(declared) and not _XML_WORDS.search(declared)
        case _:
            return declared == "application/xhtml+xml"


def is_text_type(mime_type: str) -> bool:
    """Return whether a MIME type, in lower case, is one of texts."""
    return mime_type.startswith("text/") or bool(_TEXT_WORDS.search(mime_type))


def _is_alias(mime_type: str, others: Iterable[str]) -> bool:
    return bool(_FAMILIES.get(mime_type, frozenset({mime_type})).intersection(others))


HEAD_BYTES: Final = 8192
"""How many bytes of the content are inspected."""

_BINARY_BYTES: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_TEXT_SIGNATURES: Final = (
    ("%PDF-", "application/pdf"),
    ("%!PS", "application/postscript"),
    ("{\\rtf", "application/rtf"),
)
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Matches what may precede the root element: comments, processing instructions, a document type.
_PROLOG: Final = re.compile(
    r"\s*<(?:!--(?:(?!-->).)*-->|\?(?:(?!\?>).)*\?>|!doctype\s(?P<root>[\w:-]*)[^>\[]*(?:\[[^\]]*\]\s*)?>)",
    re.IGNORECASE | re.DOTALL,
)
_TAG: Final = re.compile(r"\s*<(?P<name>[a-z][\w:.-]*)(?=[\s/>])", re.IGNORECASE)
_HTML_TAG: Final = re.compile(
    "html|head|title|body|base|script|style|link|meta|iframe|object|embed|form|input|button|template|main|section|article"
    "|nav|header|footer|div|span|p|a|b|i|u|br|hr|h[1-6]|font|center|table|ul|ol|li|img|video|audio|canvas"
)


def sniff(head: bytes, *, is_whole: bool) -> str | None:
    """Detect the MIME type of content that starts with `head`; `None` if it cannot be detected.

    Raises:
        MissingExtraError: The `media` extra is not installed.
    """
    if not head:
        return None
    text = _decode(head, is_whole=is_whole)
    if text is not None:
        return _sniff_text(text, is_whole=is_whole)
    signed = _sniff_signature(head)
    if signed is None and not _BINARY_BYTES.search(head):
        return "text/plain"  # in a legacy encoding
    return signed


def _decode(head: bytes, *, is_whole: bool) -> str | None:
    """Decode `head` as text; return `None` if it is binary."""
    mark, encoding = next(((mark, name) for mark, name in _MARKS if head.startswith(mark)), (b"", "utf-8"))
    if encoding == "utf-8" and _BINARY_BYTES.search(head):
        return None
    try:
        # `head` may end inside a multi-byte character.
        return codecs.getincrementaldecoder(encoding)().decode(head[len(mark) :], final=is_whole)
    except UnicodeDecodeError:
        return None


def _sniff_text(text: str, *, is_whole: bool) -> str:
    for signature, mime_type in _TEXT_SIGNATURES:
        if text.startswith(signature):
            return mime_type
    start = text.lstrip()
    if start.startswith("<"):
        return _sniff_markup(start)
    return "application/json" if start.startswith(("{", "[")) and _is_json(start, is_whole=is_whole) else "text/plain"


def _sniff_markup(text: str) -> str:
    is_xml = text.startswith("<?xml")
    at, root = 0, ""
    while found := _PROLOG.match(text, at):
        at, root = found.end(), found["root"] or root
    if tag := _TAG.match(text, at):
        root = tag["name"]
    name = root.lower().rpartition(":")[2]
    if name == "svg":
        return "image/svg+xml"
    if name == "html" and is_xml:
        return "application/xhtml+xml"
    if is_xml:
        return "application/xml"
    return "text/html" if _HTML_TAG.fullmatch(name) else "text/plain"


def _is_json(text: str, *, is_whole: bool) -> bool:
    try:
        jiter.from_json(text.encode(), partial_mode=not is_whole)
    except ValueError:
        return False
    return True


class _TypeSniffer(Protocol):
    """The part of the untyped module `filetype` that is used here."""

    def guess_mime(self, obj: bytes) -> str | None: ...


def _load_sniffer() -> _TypeSniffer:
    with needs_extra("media", purpose="detecting the type of media"):
        import filetype  # noqa: PLC0415 -- an extra
    return filetype


def _sniff_signature(head: bytes) -> str | None:
    found = _load_sniffer().guess_mime(head)
    if found is None and b"%PDF-" in head[:1024]:
        return "application/pdf"  # other bytes may precede the PDF header
    return None if found == UNKNOWN_MIME_TYPE else found
