"""One story, told to both backends: they answer alike."""

import asyncio
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spindle.errors import JournalError
from spindle.journal.backends.memory import MemoryStore
from spindle.journal.backends.sqlite import SqliteJournalStore
from spindle.journal.journal import Journal
from tests.fuzzing import examples
from tests.journal.sample_calls import finished, intent


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["begin", "repeat", "finish", "unrun", "note", "restart"]), st.sampled_from("abc")),
        max_size=25,
    )
)
def test_both_backends_tell_the_same_story(
    steps: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("story") / "journal.db"

    async def tell() -> None:
        memory, runs = MemoryStore(), count()
        journals = [Journal(memory), Journal(SqliteJournalStore(path, run_id=f"{next(runs)}"))]
        for step, name in steps:
            if step == "restart":
                memory.mark_process_lost()
                await journals[1].aclose()
                journals[1] = Journal(SqliteJournalStore(path, run_id=f"{next(runs)}"))
            told = [await act(journal, step, name) for journal in journals]
            assert told[0] == told[1]
            assert await journals[0].list() == await journals[1].list()
        await journals[1].aclose()

    asyncio.run(tell())


async def act(journal: Journal, step: str, name: str) -> object:
    if step in {"begin", "repeat"}:
        return await journal.begin([intent(name, repeat=step == "repeat")])
    if step == "note":
        await journal.note([(intent(name), finished(name, code="denied"))])
    if step in {"finish", "unrun"}:
        try:
            await journal.finish([finished(name, attempts=int(step == "finish"))])
        except JournalError as error:
            return error.code
    return None
