"""The attachments capability: the turn's media of the kinds a tool declared. No I/O: `Media` reads the content."""

from typing import Protocol

from spindle.capabilities.declare import CallScope
from spindle.errors import CapabilityError, UnknownAttachmentError
from spindle.json_types import untyped
from spindle.media import Media

_SHOWN_IDS = 20


class Attachments(Protocol):
    """The attachments handle of a call, available to the tool as `ctx.attachments`."""

    async def list(self) -> "list[Media]":
        """Return the turn's attachments of the declared kinds, in the order in which they were passed."""
        ...

    async def get(self, id: str) -> Media:
        """Return the attachment with this id.

        Raises:
            UnknownAttachmentError: No attachment of a declared kind has this id.
        """
        ...


class AttachmentsBackend:
    """A backend that serves only the attachments the caller passed for the turn."""

    def open(self, need: tuple[str, ...], scope: CallScope) -> "AttachmentsHandle":
        """Return the handle of one call.

        Raises:
            CapabilityError: An attachment is not a `Media`, or two attachments share an id.
        """
        given: dict[str, Media] = {}
        for media in scope.attachments or ():
            if not isinstance(untyped(media), Media):
                raise _build_error(
                    f"expected Media, got {type(media).__name__}; build it with Media.user_attachment(…)", scope
                )
            if given.setdefault(media.id, media) is not media:
                raise _build_error(f"two attachments have the id {media.id!r}; ids must be unique", scope)
        seen = [media for media in given.values() if media.kind in need or "*" in need]
        return AttachmentsHandle(seen, kinds=need, tool=scope.tool)


class AttachmentsHandle:
    """The attachments handle of one call: the turn's attachments of the kinds its tool declared."""

    __slots__ = ("_kinds", "_media", "_tool")

    def __init__(self, media: list[Media], *, kinds: tuple[str, ...], tool: str) -> None:
        self._media = {one.id: one for one in media}
        self._kinds = kinds
        self._tool = tool

    async def list(self) -> "list[Media]":
        """Return the attachments in the order in which they were passed."""
        return [*self._media.values()]

    async def get(self, id: str) -> Media:
        """Return the attachment with this id.

        Raises:
            UnknownAttachmentError: No attachment of a declared kind has this id.
        """
        found = self._media.get(str(id))  # callers may be untyped
        if found is not None:
            return found
        # An attachment of an undeclared kind gets the same error, so that the tool does not learn that it exists.
        ids = [*self._media][:_SHOWN_IDS]
        known = f"the ids are {', '.join(map(repr, ids))}" if ids else "there are none"
        more = ", …" if len(self._media) > len(ids) else ""
        kinds = ", ".join(self._kinds)
        raise UnknownAttachmentError(
            f"no attachment of this turn has the id {id!r}; of the declared kinds ({kinds}) {known}{more}",
            attachment_id=id,
            tool=self._tool,
        )


def _build_error(problem: str, scope: CallScope) -> CapabilityError:
    return CapabilityError(f"invalid attachments for this turn: {problem}", tool=scope.tool, field="attachments")
