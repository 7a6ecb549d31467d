"""Texts that were retrieved for a turn: what is shown of them, and ids that calls and they may not share."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from spindle import artifacts
from spindle.artifacts.spool import Spool
from spindle.calls import ToolCallRecord
from spindle.errors import ArtifactIdCollisionError
from spindle.turns.record_list import TurnRecords, check_record
from spindle.turns.record_types import Retrievable

if TYPE_CHECKING:
    from spindle.artifacts.artifact import Artifact


def initial_retrievables(retrievables: Iterable[Retrievable], calls: Iterable[ToolCallRecord]) -> list[Retrievable]:
    """Check the initial retrievables of a turn and return them with artifacts in memory instead of long texts.

    Raises:
        ArtifactIdCollisionError: Two of them, or one of them and a call, have the same id.
        InvalidRetrievableError: An item is not a retrievable.
    """
    taken, found = {call.id for call in calls}, list(retrievables)
    for each in found:
        check_record("retrievable", each)
        if each.id in taken:
            raise _build_id_collision(each.id)
        taken.add(each.id)
    return [_with_memory_artifact(each) for each in found]


async def spool_retrievable(
    retrievable: Retrievable, spool: Spool | None, *, spool_id: str, turn_id: str
) -> Retrievable:
    """Return the retrievable as it is shown: unchanged if it is inline, else with an artifact in the spool.

    Raises:
        SpoolError: The text could not be spooled.
    """
    if spool is None or not _needs_artifact(retrievable):
        return _with_memory_artifact(retrievable)
    reader = await spool.write(spool_id, str(retrievable.content), turn_id=turn_id)
    return replace(retrievable, content=_get_artifact_class(retrievable)(reader))


def check_call_id(id: str, records: TurnRecords) -> None:
    """Check that no retrievable has the id of a call.

    Raises:
        ArtifactIdCollisionError: A retrievable has this id.
    """
    if len(records.retrievable) and any(found.id == id for found in records.retrievable):
        raise _build_id_collision(id)


def check_retrievable(retrievable: Retrievable, records: TurnRecords) -> None:
    """Check that no call has the id of a retrievable.

    Raises:
        ArtifactIdCollisionError: A call has this id.
        InvalidRetrievableError: `found` is not a retrievable.
    """
    check_record("retrievable", retrievable)
    if any(call.id == retrievable.id for call in records.tool_call):
        raise _build_id_collision(retrievable.id)


def _with_memory_artifact(retrievable: Retrievable) -> Retrievable:
    if not _needs_artifact(retrievable):
        return retrievable
    return replace(retrievable, content=_get_artifact_class(retrievable).from_text(str(retrievable.content)))


def _get_artifact_class(retrievable: Retrievable) -> "type[Artifact]":
    chosen = retrievable.artifact_constructor
    # A function was resolved when the record was created.
    return chosen if isinstance(chosen, type) else artifacts.Artifact


def _needs_artifact(retrievable: Retrievable) -> bool:
    return not retrievable.inline and isinstance(retrievable.content, str)


def _build_id_collision(id: str) -> ArtifactIdCollisionError:
    return ArtifactIdCollisionError(
        f"The id {id!r} of a retrievable is already used in this turn, so reader tools could not distinguish them; "
        "give the retrievable another id.",
        field="id",
    )
