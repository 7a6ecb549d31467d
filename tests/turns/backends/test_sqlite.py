"""Records in a SQLite file: what survives, what is refused, and what is kept of artifacts and media."""

import gc
import sqlite3
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle import Artifact, Journal, JsonArtifact, ToolCallRecord
from spindle.errors import (
    ArtifactGoneError,
    InvalidRecordError,
    JournalError,
    MediaUnreadableError,
    RecordsError,
    UsageError,
)
from spindle.media import Media
from spindle.turns.record_types import Message, Retrievable, Thought
from spindle.turns.records import Records

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]


def call(results: Any, **facts: Any) -> ToolCallRecord:
    known: dict[str, Any] = {"args": {}, "checksum": "c", "is_complete": True, "is_error": False}
    return ToolCallRecord(id="call_1", tool="fetch", results=results, **{**known, **facts})


def picture() -> Media:
    return Media.retrieved_public(b"s3cret pixels", kind="image", mime_type="image/png", filename="cat.png")


async def kept(path: Path, record: ToolCallRecord) -> ToolCallRecord:
    """The record as another store of the same file reads it."""
    async with Records.sqlite(path) as records:
        await records.store("tool_call", record, turn_id="turn 1")
    async with Records.sqlite(path) as records:
        [found] = (await records.load("turn 1")).tool_calls
    return found


async def test_records_outlive_the_store_that_wrote_them(tmp_path: Path) -> None:
    record = call("text")

    assert await kept(tmp_path / "a" / "b" / "records.db", record) == record


async def test_an_artifact_is_kept_by_class_and_sizes_and_never_by_content(tmp_path: Path) -> None:
    path = tmp_path / "records.db"

    found = await kept(path, call(JsonArtifact.from_text('{"s3cret": 1}\n[2]\n'), shown="a preview"))

    assert type(found.results) is JsonArtifact
    assert (await found.results.byte_length(), await found.results.line_count()) == (18, 3)
    assert found.shown == "a preview"
    for read in (found.results.as_text, found.results.head):
        with pytest.raises(ArtifactGoneError):
            await read()
    assert b"s3cret" not in path.read_bytes()


async def test_media_is_kept_by_its_labels_and_never_by_content(tmp_path: Path) -> None:
    path, media = tmp_path / "records.db", picture()

    found = await kept(path, call((media, media), media=[media]))

    assert [each.to_dict() for each in (*found.results, *found.media)] == [media.to_dict()] * 3
    assert await found.results[0].byte_length() == 13
    with pytest.raises(MediaUnreadableError):
        await found.results[0].as_bytes()
    assert b"s3cret" not in path.read_bytes()


async def test_attachments_and_retrieved_artifacts_are_kept_the_same_way(tmp_path: Path) -> None:
    async with Records.sqlite(tmp_path / "records.db") as records:
        await records.store("message", Message.user("", attachments=(picture(),)))
        await records.store(
            "retrievable", Retrievable(content=Artifact.from_text("x\ny"), trust_tier="third-party-private")
        )
        found = await records.load()

    assert found.messages[0].attachments[0].filename == "cat.png"
    assert isinstance(found.retrievables[0].content, Artifact)
    assert await found.retrievables[0].content.line_count() == 2


async def test_an_artifact_of_another_class_comes_back_as_its_nearest_known_one(tmp_path: Path) -> None:
    class Special(JsonArtifact):
        pass

    class Foreign:
        """Has the shape of an artifact, with sync methods."""

        def __getattr__(self, name: str) -> Callable[..., int]:
            if name.startswith("_"):
                raise AttributeError(name)
            return lambda *_: 7

    special = await kept(tmp_path / "1.db", call(Special.from_text("{}")))
    foreign = await kept(tmp_path / "2.db", call(Foreign()))

    assert type(special.results) is JsonArtifact
    assert type(foreign.results) is Artifact
    assert await foreign.results.byte_length() == 7


async def test_an_artifact_or_media_that_is_gone_is_still_kept(tmp_path: Path) -> None:
    class Gone:
        async def line(self, i: int) -> str | None:
            raise ArtifactGoneError("gone")

        async def byte_length(self) -> int:
            raise ArtifactGoneError("gone")

        line_count = byte_length

        async def read_all(self) -> bytes:
            raise ArtifactGoneError("gone")

    lost = Media.from_file(
        tmp_path / "nowhere.png",
        kind="image",
        mime_type="image/png",
        trust_tier="third-party-public",
        modality_hazard="opaque-perceptual",
    )

    artifact = (await kept(tmp_path / "1.db", call(Artifact(Gone())))).results
    media = (await kept(tmp_path / "2.db", call(lost))).results

    with pytest.raises(ArtifactGoneError):
        await artifact.byte_length()
    assert await media.byte_length() is None


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes"], ids=["object", "set", "bytes"])
async def test_values_without_json_are_refused_and_not_kept(tmp_path: Path, value: Any) -> None:
    async with Records.sqlite(tmp_path / "records.db") as records:
        with pytest.raises(InvalidRecordError) as caught:
            await records.store("tool_call", call("x", args={"deep": [value]}))
        assert caught.value.field == "args"
        with pytest.raises(InvalidRecordError) as caught:
            await records.store("thought", Thought(payload=value, replay_compatibility="v"))
        assert caught.value.field == "payload"

        assert (await records.load()).tool_calls == ()


@pytest.mark.parametrize("path", ["", ":memory:", "nul\0byte", 5, None], ids=repr)
def test_a_value_that_is_not_a_path_is_refused(path: Any) -> None:
    with pytest.raises(UsageError) as caught:
        Records.sqlite(path)

    assert caught.value.field == "path"


async def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    await kept(tmp_path / "private" / "records.db", call("x"))

    assert stat.S_IMODE((tmp_path / "private" / "records.db").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o700
    assert names_in(tmp_path / "private") == ["records.db", "records.db.lock"]


async def test_an_empty_file_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    path.touch()

    assert (await kept(path, call("x"))).results == "x"


async def refuses(path: Path) -> RecordsError:
    records = Records.sqlite(path)
    with pytest.raises(RecordsError) as caught:
        await records.load()
    with pytest.raises(RecordsError):
        await records.store("message", Message.user("x"))
    await records.aclose()
    return caught.value


async def test_a_foreign_file_is_refused_and_left_unchanged(tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("my notes " * 20)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE mine (x)")
    before = other.read_bytes()

    await refuses(text)
    await refuses(other)
    await refuses(tmp_path)

    assert text.read_text() == "my notes " * 20
    assert other.read_bytes() == before


async def test_a_journal_and_records_do_not_share_a_file(tmp_path: Path) -> None:
    async with Journal.sqlite(tmp_path / "journal.db"):
        await refuses(tmp_path / "journal.db")
    async with Records.sqlite(tmp_path / "records.db") as records:
        await records.load()
        with pytest.raises(JournalError):
            await Journal.sqlite(tmp_path / "records.db").list()
        assert (await records.load()).messages == ()


async def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    await kept(path, call("x"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")

    await refuses(path)


async def test_a_damaged_file_raises_our_own_error(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    await kept(path, call("x"))
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))

    error = await refuses(path)

    assert isinstance(error.__cause__, sqlite3.Error)


async def test_a_row_that_is_not_a_record_raises_our_own_error(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    await kept(path, call("x"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE records SET body = '{}'")
        connection.commit()

    async with Records.sqlite(path) as records:
        with pytest.raises(RecordsError):
            await records.load()


async def test_fields_of_a_newer_version_are_left_out(tmp_path: Path) -> None:
    path, record = tmp_path / "records.db", call("x")
    await kept(path, record)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("""UPDATE records SET body = '{"from_the_future":1,' || substr(body, 2)""")
        connection.commit()

    async with Records.sqlite(path) as records:
        assert (await records.load()).tool_calls == (record,)


async def test_a_write_that_fails_changes_nothing_and_the_file_can_still_be_used(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    async with Records.sqlite(path) as records:
        await records.store("message", Message.user("small"))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TRIGGER full BEFORE INSERT ON records BEGIN SELECT RAISE(ABORT, 'full'); END")
        with pytest.raises(RecordsError):
            await records.store("message", Message.user("large"))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DROP TRIGGER full")
        await records.store("message", Message.user("later"))

        assert [each.content for each in (await records.load()).messages] == ["small", "later"]


async def test_closed_records_refuse(tmp_path: Path) -> None:
    records = Records.sqlite(tmp_path / "records.db")
    async with records:
        await records.load()

    with pytest.raises(RecordsError):
        await records.load()


WRITER = """
import sys, anyio
from spindle.turns.record_types import Message
from spindle.turns.records import Records

async def main():
    async with Records.sqlite(sys.argv[1]) as records:
        for number in range(20):
            await records.store("message", Message.user(f"{sys.argv[2]}.{number}"), turn_id=sys.argv[2])

anyio.run(main)
"""


@pytest.mark.slow
async def test_several_processes_may_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with anyio.fail_after(40):
        async with anyio.create_task_group() as tasks:
            for number in range(2):
                tasks.start_soon(anyio.run_process, [sys.executable, "-c", WRITER, str(path), str(number)])

    async with Records.sqlite(path) as records:
        assert len((await records.load()).messages) == 40
        assert [each.content for each in (await records.load("1")).messages] == [f"1.{n}" for n in range(20)]
    assert names_in(tmp_path) == ["records.db", "records.db.lock"]


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "spindle-journal"}


async def test_stores_of_one_path_share_a_thread_which_ends_with_the_last(tmp_path: Path) -> None:
    before, path = threads(), tmp_path / "records.db"
    first, second = Records.sqlite(path), Records.sqlite(tmp_path / "folder" / ".." / "records.db")
    for records in (first, second):
        await records.store("message", Message.user("x"))
    [thread] = threads() - before

    await first.aclose()
    assert len((await second.load()).messages) == 2
    await second.aclose()

    thread.join(30)
    assert not thread.is_alive()


async def test_records_that_are_forgotten_let_go_of_their_file(tmp_path: Path) -> None:
    before = threads()
    records = Records.sqlite(tmp_path / "records.db")
    await records.load()
    [thread] = threads() - before

    del records
    gc.collect()

    thread.join(30)
    assert not thread.is_alive()


FORK = """
import os, sys, anyio
from spindle.errors import RecordsError
from spindle.turns import Message, Records

async def store(records):
    await records.store("message", Message.user("x"))

records = Records.sqlite(sys.argv[1])
anyio.run(store, records)
child = os.fork()
if child == 0:
    try:
        anyio.run(store, Records.sqlite(sys.argv[1]))
    except RecordsError as error:
        print(type(error.__cause__).__name__, flush=True)
    os._exit(0)
os.waitpid(child, 0)
anyio.run(store, records)
"""


@pytest.mark.slow
async def test_forked_child_cannot_use_records_that_its_parent_has_open(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with anyio.fail_after(40):
        done = await anyio.run_process([sys.executable, "-c", FORK, str(path)])

    assert done.stdout == b"JournalLockedError\n"
    async with Records.sqlite(path) as records:
        assert len((await records.load()).messages) == 2
