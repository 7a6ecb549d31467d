"""What the user sent with the turn, as far as a tool declared its kinds. No I/O: the content is read by `Media`."""

from spindle.capabilities.declare import CallScope
from spindle.errors import CapabilityError, UnknownAttachmentError
from spindle.media import Media

_SHOWN_IDS = 20


class AttachmentsBackend:
    """Serves the attachments that the caller passed for the turn; nothing else is reached through it."""

    def open(self, need: tuple[str, ...], scope: CallScope) -> "Attachments":
        """Give the handle of one call.

        Raises:
            CapabilityError: What was passed is no media, or two media share an id.
        """
        given: dict[str, Media] = {}
        for media in scope.attachments or ():
            if not isinstance(media, Media):
                raise _unfit(
                    f"expected Media, got {type(media).__name__}; make it with Media.user_attachment(…)", scope
                )
            if given.setdefault(media.id, media) is not media:
                raise _unfit(f"two of them have the id {media.id!r}; give each its own", scope)
        seen = [media for media in given.values() if media.kind in need or "*" in need]
        return Attachments(seen, kinds=need, tool=scope.tool)


class Attachments:
    """One call's view of the turn's attachments: those of the kinds its tool declared."""

    __slots__ = ("_kinds", "_media", "_tool")

    def __init__(self, media: list[Media], *, kinds: tuple[str, ...], tool: str) -> None:
        self._media = {one.id: one for one in media}
        self._kinds = kinds
        self._tool = tool

    async def list(self) -> "list[Media]":
        """Give them in the order in which they were passed."""
        return [*self._media.values()]

    async def get(self, id: str) -> Media:
        """Give the one with this id.

        Raises:
            UnknownAttachmentError: None of those that the tool may see has it.
        """
        found = self._media.get(str(id))  # an untyped caller may ask for anything
        if found is not None:
            return found
        # One of another kind is answered alike: the tool is not told that it is there.
        ids = [*self._media][:_SHOWN_IDS]
        known = f"the ids are {', '.join(map(repr, ids))}" if ids else "there is none"
        more = ", …" if len(self._media) > len(ids) else ""
        kinds = ", ".join(self._kinds)
        raise UnknownAttachmentError(
            f"no attachment of this turn has the id {id!r}; of the declared kinds ({kinds}) {known}{more}",
            attachment_id=id,
            tool=self._tool,
        )


def _unfit(problem: str, scope: CallScope) -> CapabilityError:
    return CapabilityError(
        f"the attachments of this turn cannot be used: {problem}", tool=scope.tool, field="attachments"
    )
