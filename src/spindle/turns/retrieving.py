"""What was found for a turn: kept whole where it is not shown whole, under an id that nothing else of the turn has."""

from collections.abc import Iterable
from dataclasses import replace

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.spool import Spool
from spindle.errors import ArtifactIdCollisionError
from spindle.records import ToolCallRecord
from spindle.turns.record_kinds import Retrievable
from spindle.turns.records import Shelves, check_record


def started_with(retrievables: Iterable[Retrievable], calls: Iterable[ToolCallRecord]) -> list[Retrievable]:
    """Take what a turn starts with: its texts are in memory already, and stay there.

    Raises:
        ArtifactIdCollisionError: Two of them, or one of them and a call, have one id.
        InvalidRetrievableError: Something else is among them.
    """
    taken, found = {call.id for call in calls}, list(retrievables)
    for each in found:
        check_record("retrievable", each)
        if each.id in taken:
            raise _clash(each.id)
        taken.add(each.id)
    return [_in_memory(each) for each in found]


async def kept(found: Retrievable, spool: Spool | None, *, place: str, turn_id: str) -> Retrievable:
    """Give what is shown of a text that was found: itself when it is inline, else an artifact of it in the spool.

    Raises:
        SpoolError: It could not be kept.
    """
    if spool is None or not _is_to_be_kept(found):
        return _in_memory(found)
    reader = await spool.write(place, str(found.content), turn_id=turn_id)
    return replace(found, content=(found.artifact_constructor or Artifact)(reader))


def check_call_id(id: str, shelves: Shelves) -> None:
    """Pass the id of a call that no retrieved text has.

    Raises:
        ArtifactIdCollisionError: One has it.
    """
    if len(shelves.retrievable) and any(found.id == id for found in shelves.retrievable):
        raise _clash(id)


def check_retrievable(found: Retrievable, shelves: Shelves) -> None:
    """Pass a retrieved text whose id no call has.

    Raises:
        ArtifactIdCollisionError: One has it.
        InvalidRetrievableError: It is none.
    """
    check_record("retrievable", found)
    if any(call.id == found.id for call in shelves.tool_call):
        raise _clash(found.id)


def _in_memory(found: Retrievable) -> Retrievable:
    if not _is_to_be_kept(found):
        return found
    return replace(found, content=(found.artifact_constructor or Artifact).from_text(str(found.content)))


def _is_to_be_kept(found: Retrievable) -> bool:
    return not found.inline and isinstance(found.content, str)


def _clash(id: str) -> ArtifactIdCollisionError:
    return ArtifactIdCollisionError(
        f"{id!r} is the id of a retrieved text and of something else in this turn, so a reader could not tell them "
        "apart; give the text another id",
        field="id",
    )
