"""Bytes that a provider can render, with where they came from and what decoding them may do.

Start with `media.py`. `labels.py` has the words that describe media and their rules, `readers.py` where the bytes come
from, `sniff.py` what they really are, `claims.py` whether the declared type agrees, `names.py` what they may be called.
"""

from spindle.media.claims import MimeCheck
from spindle.media.labels import DerivedText, Kind, ModalityHazard, TrustTier
from spindle.media.media import Media
from spindle.media.names import safe_filename, safe_mime_type
from spindle.media.readers import MediaReader, MediaStream

__all__ = [
    "DerivedText",
    "Kind",
    "Media",
    "MediaReader",
    "MediaStream",
    "MimeCheck",
    "ModalityHazard",
    "TrustTier",
    "safe_filename",
    "safe_mime_type",
]
