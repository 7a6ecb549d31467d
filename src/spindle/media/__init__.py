"""Bytes that a provider can render, labelled with their origin and decoding risk; start reading at `media.py`."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.media.backends.files import FileReader as FileReader
    from spindle.media.labels import DerivedText as DerivedText
    from spindle.media.labels import Kind as Kind
    from spindle.media.labels import ModalityHazard as ModalityHazard
    from spindle.media.labels import TrustTier as TrustTier
    from spindle.media.labels import safe_filename as safe_filename
    from spindle.media.labels import safe_mime_type as safe_mime_type
    from spindle.media.media import Media as Media
    from spindle.media.mime import MimeCheck as MimeCheck
    from spindle.media.readers import MediaReader as MediaReader
    from spindle.media.readers import MediaStream as MediaStream
else:
    __getattr__, __dir__ = open_door(__name__)
