"""The memory store and the SQLite store give the same answers."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spindle.errors import JournalError
from spindle.journal.backends.memory import MemoryJournalStore
from spindle.journal.backends.sqlite_writer import end_all
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
def test_memory_and_sqlite_give_the_same_answers(
    steps: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("story") / "journal.db"

    async def report() -> None:
        memory = MemoryJournalStore()
        journals = [Journal(memory), Journal.sqlite(path)]
        for step, name in steps:
            if step == "restart":
                memory.mark_process_lost()
                end_all()
                journals[1] = Journal.sqlite(path)
            reported = [await act(journal, step, name) for journal in journals]
            assert reported[0] == reported[1]
            assert await journals[0].list() == await journals[1].list()
        await journals[1].aclose()

    asyncio.run(report())


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
