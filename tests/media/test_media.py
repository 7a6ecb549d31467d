import base64
import copy
import pickle
from collections.abc import AsyncIterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle import Spool
from spindle.errors import InvalidMediaError, MediaUnreadableError
from spindle.media import DerivedText, Media, MimeCheck
from spindle.media.readers import CHUNK_BYTES, MediaBytesReader

pytestmark = pytest.mark.anyio
LABELS: dict[str, Any] = {
    "kind": "image",
    "mime_type": "image/png",
    "filename": "a.png",
    "trust_tier": "third-party-public",
    "modality_hazard": "opaque-perceptual",
}
ABOUT: dict[str, Any] = {"kind": "image", "mime_type": "image/png", "filename": "a.png"}


class Untouchable:
    """A reader that must not be read."""

    def stream(self) -> bytes:
        raise AssertionError("the content was read")

    def byte_length(self) -> int:
        raise AssertionError("the content was measured")


class Dribble:
    """A reader that gives its bytes in pieces of a given size, and does not know its length."""

    def __init__(self, data: bytes, size: int) -> None:
        self.data, self.size = data, size

    async def stream(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self.data), self.size):
            yield self.data[at : at + self.size]

    async def byte_length(self) -> None:
        return None


# --- describing ------------------------------------------------------------------------------------------------------


def test_media_takes_its_values_by_position_and_by_name() -> None:
    reader = MediaBytesReader(b"x")

    one = Media("image", "image/png", "a.png", "first-party", "inert", reader, "id-1", "https://example.com/a.png")
    two = Media(
        kind="image",
        mime_type="image/png",
        filename="a.png",
        trust_tier="first-party",
        modality_hazard="inert",
        reader=reader,
        id="id-1",
        source="https://example.com/a.png",
    )

    assert one.to_dict() == two.to_dict()
    assert one.reader is reader
    assert one != two
    assert one == one  # noqa: PLR0124 -- the point of the test
    assert len({one, two, one}) == 2


def test_tier_and_hazard_have_no_default() -> None:
    with pytest.raises(InvalidMediaError) as caught:
        Media(kind="image", mime_type="image/png", filename="a.png", reader=MediaBytesReader(b""))

    assert caught.value.fields == ("trust_tier", "modality_hazard")
    assert caught.value.code == "E_INVALID_INITIAL_MEDIA_VALUE"


def test_nothing_at_all_names_every_value() -> None:
    with pytest.raises(InvalidMediaError) as caught:
        Media()

    assert len(caught.value.fields) == 6


@pytest.mark.parametrize("make", [Media.from_bytes, Media.from_reader, Media.tool_generated, Media.user_attachment])
def test_a_factory_names_what_is_missing(make: Any) -> None:
    with pytest.raises(InvalidMediaError) as caught:
        make(b"x", mime_type="image/png")

    assert {"kind", "filename"} <= set(caught.value.fields)


def test_an_unknown_keyword_is_refused() -> None:
    made: Any = Media.from_bytes
    with pytest.raises(TypeError):
        made(b"x", **LABELS, colour="red")


def test_an_id_is_made_in_order_of_time() -> None:
    first, second = Media.from_bytes(b"", **LABELS), Media.from_bytes(b"", **LABELS)

    assert UUID(first.id).version == 7
    assert first.id[:18] <= second.id[:18]
    assert first.id != second.id
    assert Media.from_bytes(b"", **LABELS, id="mine").id == "mine"


@pytest.mark.parametrize(
    "name", ["kind", "mime_type", "filename", "trust_tier", "modality_hazard", "reader", "id", "stash"]
)
def test_media_is_read_only(name: str) -> None:
    media = Media.from_bytes(b"", **LABELS)

    with pytest.raises(FrozenInstanceError):
        setattr(media, name, "first-party")
    with pytest.raises(FrozenInstanceError):
        delattr(media, name)
    with pytest.raises((AttributeError, TypeError)):
        media.other = 1  # pyright: ignore[reportAttributeAccessIssue] -- on purpose


def test_describing_media_never_touches_its_content() -> None:
    media = Media("image", "image/png", "a<b>.png", "first-party", "inert", Untouchable(), "id-1")

    assert media.to_dict() == {
        "id": "id-1",
        "kind": "image",
        "mime_type": "image/png",
        "filename": "a<b>.png",
        "trust_tier": "first-party",
        "modality_hazard": "inert",
        "source": None,
    }
    assert repr(media) == "<Media id-1: image 'ab.png', image/png, first-party>"
    assert copy.deepcopy(media) is media
    assert copy.copy(media) is media


def test_given_names_are_kept_and_safe_ones_are_offered() -> None:
    media = Media.user_attachment(b"", kind="image", mime_type="nonsense\n<x>", filename="../\u202egnp.exe")

    assert (media.mime_type, media.safe_mime_type) == ("nonsense\n<x>", "application/octet-stream")
    assert (media.filename, media.safe_filename) == ("../\u202egnp.exe", "gnp.exe")


def test_only_media_is_media() -> None:
    class Media2(Media):
        pass

    assert Media.is_media(Media.from_bytes(b"", **LABELS))
    assert Media.is_media(Media2.from_bytes(b"", **LABELS))
    assert not Media.is_media(type("Media", (), LABELS)())
    assert not Media.is_media(LABELS)
    assert not Media.is_media(None)
    assert not Media.is_media(Media)


async def test_media_survives_pickling() -> None:
    media = Media.from_bytes(b"abc", **LABELS, stash={"text:caption": {"value": "a", "trust_tier": "first-party"}})

    again = pickle.loads(pickle.dumps(media))

    assert again.to_dict() == media.to_dict()
    assert dict(again.stash) == dict(media.stash)
    assert await again.as_bytes() == b"abc"


# --- labels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "tier"),
    [
        (Media.user_attachment, "third-party-private"),
        (Media.tool_generated, "first-party"),
        (Media.retrieved_public, "third-party-public"),
        (Media.retrieved_private, "third-party-private"),
    ],
)
@pytest.mark.parametrize(
    ("kind", "mime_type", "hazard"),
    [
        ("image", "image/png", "opaque-perceptual"),
        ("audio", "audio/mpeg", "opaque-perceptual"),
        ("video", "video/mp4", "opaque-perceptual"),
        ("document", "application/pdf", "extractable-instructions"),
    ],
)
async def test_a_factory_sets_tier_and_hazard(make: Any, tier: str, kind: Any, mime_type: str, hazard: str) -> None:
    media = make(b"abc", kind=kind, mime_type=mime_type, filename="f")
    streamed = make(Dribble(b"abc", 2), kind=kind, mime_type=mime_type, filename="f")

    assert (media.kind, media.trust_tier, media.modality_hazard) == (kind, tier, hazard)
    assert await media.as_bytes() == await streamed.as_bytes() == b"abc"


def test_a_factory_cannot_be_talked_into_more_trust() -> None:
    make: Any = Media.user_attachment

    with pytest.raises(TypeError):
        make(b"", **ABOUT, trust_tier="first-party")


@pytest.mark.parametrize("data", ["text", None, 5, ["a"], Path("a.png"), MediaBytesReader])
def test_a_factory_takes_bytes_or_a_reader_and_nothing_else(data: Any) -> None:
    with pytest.raises(InvalidMediaError):
        Media.tool_generated(data, **ABOUT)
    with pytest.raises(InvalidMediaError):
        Media.from_bytes(data, **LABELS)
    with pytest.raises(InvalidMediaError):
        Media.from_reader(data, **LABELS)


def test_derived_text_is_an_immutable_view_and_takes_the_lower_tier() -> None:
    media = Media.user_attachment(b"", **ABOUT, stash={"text:caption": {"value": "a cat", "trust_tier": "first-party"}})
    more = media.with_stash({"text:transcript": DerivedText("meow", "third-party-public")})
    view: Any = more.stash

    assert dict(media.stash) == {"text:caption": DerivedText("a cat", "third-party-private")}
    assert dict(more.stash) == {**media.stash, "text:transcript": DerivedText("meow", "third-party-private")}
    assert (more.id, more.reader) == (media.id, media.reader)
    with pytest.raises(TypeError):
        view["text:caption"] = "trust me"
    with pytest.raises(InvalidMediaError) as caught:
        media.with_stash({"text:caption": {"value": "x"}})
    assert caught.value.fields == ("stash.text:caption",)


# --- content ---------------------------------------------------------------------------------------------------------


async def test_content_can_be_read_as_often_as_one_likes() -> None:
    media = Media.from_bytes(b"abc", **LABELS)

    for _ in range(2):
        assert [chunk async for chunk in media.stream()] == [b"abc"]
        assert await media.as_bytes() == b"abc"
        assert await media.as_base64() == "YWJj"
        assert await media.byte_length() == 3


async def test_an_unknown_length_is_not_zero() -> None:
    assert await Media.from_reader(Dribble(b"abc", 1), **LABELS).byte_length() is None
    assert await Media.from_bytes(b"", **LABELS).byte_length() == 0


@given(data=st.binary(max_size=40), size=st.integers(1, 9))
async def test_base64_is_that_of_the_whole_however_it_comes(data: bytes, size: int) -> None:
    media = Media.from_reader(Dribble(data, size), **LABELS)

    assert await media.as_base64() == base64.b64encode(data).decode()
    assert await media.as_bytes() == data


async def test_a_file_is_read_when_asked_and_gives_its_name(tmp_path: Path) -> None:
    path = tmp_path / "scan.pdf"
    labels: Any = {**LABELS, "kind": "document", "mime_type": "application/pdf"}
    del labels["filename"]
    media = Media.from_file(path, **labels)
    with pytest.raises(MediaUnreadableError):
        await media.as_bytes()

    path.write_bytes(b"%PDF-1.7")

    assert await media.as_bytes() == b"%PDF-1.7"
    assert await media.byte_length() == 8
    assert media.filename == "scan.pdf"
    assert Media.from_file(str(path), **labels, filename="other.pdf").filename == "other.pdf"


@pytest.mark.parametrize("where", ["memory", "files"])
async def test_spooled_content_can_be_media_and_is_read_in_chunks(where: str, tmp_path: Path) -> None:
    spool = Spool.memory() if where == "memory" else Spool.files(tmp_path / "spool")
    data = bytes(range(256)) * 1000
    media = Media.from_reader(await spool.write("sound", data), **LABELS)

    assert await media.as_bytes() == data
    assert await media.byte_length() == len(data)
    assert max([len(chunk) async for chunk in media.stream()]) <= CHUNK_BYTES
    async with media.stream() as chunks:
        async for chunk in chunks:
            assert data.startswith(chunk)
            break


# --- sniffing --------------------------------------------------------------------------------------------------------


async def test_the_declared_type_is_held_against_the_content(samples: dict[str, bytes]) -> None:
    honest = Media.user_attachment(samples["image/png"], **ABOUT)
    page = Media.user_attachment(samples["text/html"], **ABOUT)

    assert await honest.sniff() == "image/png"
    assert await honest.check() == MimeCheck(declared="image/png", sniffed="image/png", matches=True)
    assert await page.check() == MimeCheck(declared="image/png", sniffed="text/html", matches=False)


async def test_sniffing_reads_only_the_beginning(samples: dict[str, bytes]) -> None:
    given_out = 0

    class Endless:
        async def stream(self) -> AsyncIterator[bytes]:
            nonlocal given_out
            yield samples["image/png"]
            while True:
                given_out += 1000
                yield bytes(1000)

        def byte_length(self) -> None:
            return None

    assert await Media.from_reader(Endless(), **LABELS).sniff() == "image/png"
    assert given_out < 20_000


@pytest.mark.parametrize("size", [1, 7, 8192])
async def test_a_type_is_recognised_from_chunks_of_any_size(size: int, samples: dict[str, bytes]) -> None:
    for mime_type, data in samples.items():
        assert await Media.from_reader(Dribble(data, size), **LABELS).sniff() == mime_type


async def test_empty_media_shows_nothing() -> None:
    assert await Media.from_bytes(b"", **LABELS).sniff() is None
    assert not (await Media.from_bytes(b"", **LABELS).check()).matches
