"""Notes on a real storage backend."""

from pathlib import Path

import pytest

from spindle.kit.memory import memory_forget, memory_recall, memory_remember
from tests.kit.calling import Workshop
from tests.kit.keeping import Kept

pytestmark = pytest.mark.anyio


@pytest.fixture
def notes() -> Kept:
    return Kept("memory")


async def names(notes: Kept, query: str = "", limit: int = 20) -> list[str]:
    return [note["name"] for note in await notes.call(memory_recall, query=query, limit=limit)]


async def test_notes_are_recalled_by_their_words(notes: Kept) -> None:
    await notes.call(memory_remember, name="colour", content="The user likes BLUE best.")
    await notes.call(memory_remember, name="Größe", content="Shoe size 42.")

    assert await names(notes, "blue user") == ["colour"]
    assert await names(notes, "GRÖSSE") == ["Größe"]
    assert await names(notes, "blue shoe") == []
    assert sorted(await names(notes)) == ["Größe", "colour"]
    assert len(await names(notes, limit=1)) == 1


async def test_a_name_holds_one_note_however_it_is_written(notes: Kept) -> None:
    await notes.call(memory_remember, name="Favourite  Colour", content="red")
    await notes.call(memory_remember, name="favourite colour", content="blue")

    (note,) = await notes.call(memory_recall)

    assert (note["name"], note["content"]) == ("favourite colour", "blue")


async def test_a_forgotten_note_is_gone(notes: Kept) -> None:
    await notes.call(memory_remember, name="a", content="x")

    await notes.call(memory_forget, name="A")
    error = await notes.err(memory_forget, name="a")

    assert await names(notes) == []
    assert (error.code, error.field) == ("input_invalid", "name")


async def test_each_session_has_its_own_notes(notes: Kept) -> None:
    await notes.call(memory_remember, name="a", content="x")

    assert await notes.call(memory_recall, session="s2") == []


async def test_the_tools_share_their_notes_under_an_executor(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    await workshop.ok("memory_remember", name="a", content="x")

    recalled = await workshop.ok("memory_recall")

    assert [note["name"] for note in recalled.structured] == ["a"]
    assert not recalled.trusted
