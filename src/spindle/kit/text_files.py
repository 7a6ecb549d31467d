"""Bytes of a file as text, and back: which encoding it is in, and whether it is text at all."""

import codecs
from dataclasses import dataclass

_SNIFFED_BYTES = 8_192
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NAMES = {"utf-8-sig": "UTF-8", "utf-16": "UTF-16", "utf-32": "UTF-32", "latin-1": "Latin-1"}
# What text in an old one-byte encoding holds of the lowest 32 codes: tab, line ends, form feed, escape.
_PLAIN_CONTROLS = frozenset(b"\t\n\r\f\x1b")
_MAX_CONTROLS = 0.01


@dataclass(frozen=True, slots=True)
class Text:
    """A file's text, and how it was encoded."""

    text: str
    encoding: str
    mark: bytes = b""

    @property
    def note(self) -> str | None:
        """What a reader should know who takes every file for UTF-8."""
        if self.encoding in ("utf-8", "utf-8-sig"):
            return None
        guessed = " because it is not valid UTF-8; some characters may be wrong" if self.encoding == "latin-1" else ""
        return f"[read as {_NAMES[self.encoding]}{guessed}]"

    def encoded(self, text: str) -> bytes:
        """Give other text in the same encoding, with the same mark.

        Raises:
            UnicodeEncodeError: The encoding has no bytes for it.
        """
        if not self.mark:
            return text.encode(self.encoding)
        if self.encoding == "utf-8-sig":
            return self.mark + text.encode()
        order = "le" if self.mark[0] == 0xFF else "be"
        return self.mark + text.encode(f"{self.encoding}-{order}")


def decoded(data: bytes) -> Text | None:
    """Read UTF-8, anything with a byte order mark, or else Latin-1; `None` for what is no text."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return Text(data.decode(encoding), encoding, mark)
            except UnicodeDecodeError:
                if encoding != "utf-32":  # whose mark may be that of UTF-16 and a zero
                    return None
    if b"\0" in data[:_SNIFFED_BYTES]:
        return None
    try:
        return Text(data.decode(), "utf-8")
    except UnicodeDecodeError:
        return None if _looks_binary(data[:_SNIFFED_BYTES]) else Text(data.decode("latin-1"), "latin-1")


def _looks_binary(sample: bytes) -> bool:
    odd = sum(byte < 32 and byte not in _PLAIN_CONTROLS for byte in sample)
    return odd > len(sample) * _MAX_CONTROLS
