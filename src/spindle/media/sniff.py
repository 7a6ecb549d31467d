"""What bytes really are, judged by their beginning.

Text comes first: a letter that starts with `BM` is no bitmap, and a picture that reads as clean text is a page in
disguise. What is not text is told by its signature.
"""

import codecs
import re
from typing import Any, Final, cast

import jiter

from spindle.extras import needs_extra
from spindle.media.names import UNKNOWN_MIME_TYPE

HEAD_BYTES: Final = 8192
"""How much of the content is looked at."""

_NOT_OF_TEXT: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_TEXT_SIGNATURES: Final = (
    ("%PDF-", "application/pdf"),
    ("%!PS", "application/postscript"),
    ("{\\rtf", "application/rtf"),
)
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Before the root of a page or a drawing: comments, processing instructions, a document type.
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
    """Name the MIME type of content that begins with `head`, or `None` when it gives nothing away.

    Raises:
        MissingExtraError: The `media` extra is not installed.
    """
    if not head:
        return None
    text = _decoded(head, is_whole=is_whole)
    if text is not None:
        return _sniff_text(text, is_whole=is_whole)
    signed = _sniff_signature(head)
    if signed is None and not _NOT_OF_TEXT.search(head):
        return "text/plain"  # in an older character set
    return signed


def _decoded(head: bytes, *, is_whole: bool) -> str | None:
    """Read `head` as text, or give `None` when it is none."""
    mark, encoding = next(((mark, name) for mark, name in _MARKS if head.startswith(mark)), (b"", "utf-8"))
    if encoding == "utf-8" and _NOT_OF_TEXT.search(head):
        return None
    try:
        # The cut may go through a character.
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


def _sniff_signature(head: bytes) -> str | None:
    with needs_extra("media", purpose="detecting the type of media"):
        import filetype  # noqa: PLC0415 -- an extra
    found = cast("str | None", cast("Any", filetype).guess_mime(head))
    if found is None and b"%PDF-" in head[:1024]:
        return "application/pdf"  # a PDF may have something in front
    return None if found == UNKNOWN_MIME_TYPE else found
