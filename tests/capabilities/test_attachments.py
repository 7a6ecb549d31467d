"""What the user sent with the turn, by kind."""

from typing import Any

import pytest

from spindle import Capabilities, Media
from spindle.capabilities.attachments import Attachments, AttachmentsBackend
from spindle.capabilities.declare import CallScope
from spindle.errors import CapabilityError, UnknownAttachmentError

pytestmark = pytest.mark.anyio

PHOTO = Media.user_attachment(b"photo", kind="image", mime_type="image/png", filename="a.png", id="photo")
SCAN = Media.user_attachment(b"scan", kind="image", mime_type="image/png", filename="b.png", id="scan")
LETTER = Media.user_attachment(b"letter", kind="document", mime_type="application/pdf", filename="c.pdf", id="letter")


def opened(*kinds: Any, given: Any = (PHOTO, LETTER, SCAN)) -> Attachments:
    need = Capabilities(attachments=kinds).attachments
    assert need is not None
    return AttachmentsBackend().open(need, CallScope(tool="look", session_id="s1", attachments=given))


async def test_a_tool_sees_the_kinds_it_declared_in_their_order() -> None:
    assert await opened("image").list() == [PHOTO, SCAN]
    assert await opened("document", "image").list() == [PHOTO, LETTER, SCAN]
    assert await opened("audio").list() == []
    assert await opened("*").list() == [PHOTO, LETTER, SCAN]
    assert await opened().list() == []


async def test_an_attachment_is_found_by_its_id_and_can_be_read() -> None:
    found = await opened("document").get("letter")

    assert found is LETTER
    assert await found.as_bytes() == b"letter"


@pytest.mark.parametrize("id", ["letter", "absent", ""])
async def test_an_id_of_another_kind_is_as_unknown_as_one_of_none(id: str) -> None:
    with pytest.raises(UnknownAttachmentError) as caught:
        await opened("image").get(id)

    assert (caught.value.attachment_id, caught.value.tool, caught.value.field) == (id, "look", "attachments")
    assert "photo" in str(caught.value)
    assert "letter" not in str(caught.value).replace(repr(id), "")


async def test_the_list_is_a_copy() -> None:
    attachments = opened("image")
    (await attachments.list()).clear()

    assert await attachments.list() == [PHOTO, SCAN]


@pytest.mark.parametrize("given", [(), [], None])
async def test_a_turn_without_attachments_has_none(given: Any) -> None:
    attachments = opened("image", given=given)

    assert await attachments.list() == []
    with pytest.raises(UnknownAttachmentError):
        await attachments.get("photo")


async def test_the_same_media_twice_is_one() -> None:
    assert await opened("image", given=(PHOTO, PHOTO)).list() == [PHOTO]


@pytest.mark.parametrize(
    "given",
    [
        ("photo.png",),
        (PHOTO, Media.user_attachment(b"", kind="document", mime_type="text/plain", filename="x", id="photo")),
    ],
)
def test_a_value_that_is_not_media_or_has_a_used_id_is_refused(given: Any) -> None:
    with pytest.raises(CapabilityError) as caught:
        opened("image", given=given)

    assert (caught.value.tool, caught.value.field) == ("look", "attachments")
