"""Notices between the processes of a journal, over every backend that has them."""

from collections.abc import Callable

import anyio
import pytest

from spindle.errors import UsageError
from spindle.journal import Journal, MemoryJournalStore, NoticeBoard
from tests.journal.conftest import postgres_place
from tests.journal.postgres_fixtures import execute

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.slow)])
def board(request: pytest.FixtureRequest) -> Callable[[], NoticeBoard]:
    """Another board of the same place."""
    if request.param == "postgres":
        place = postgres_place(request.getfixturevalue("postgres_dsn"))
        journal = place.journal
    else:
        store = MemoryJournalStore()

        def journal() -> Journal:
            return Journal(store)

    def get() -> NoticeBoard:
        notices = journal().notices
        assert notices is not None
        return notices

    return get


class Heard:
    """The notices that one listener got."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._event = anyio.Event()

    def __call__(self, text: str) -> None:
        self.texts.append(text)
        self._event.set()

    async def wait_for(self, text: str) -> None:
        with anyio.fail_after(30):
            while text not in self.texts:
                self._event = anyio.Event()
                await self._event.wait()


async def test_a_notice_reaches_every_listener_in_order_the_publisher_included(
    board: Callable[[], NoticeBoard],
) -> None:
    first, second = Heard(), Heard()
    here, there = board(), board()
    await here.subscribe(first)
    await there.subscribe(second)

    for text in ("one", "two", "thr\N{LATIN SMALL LETTER E WITH ACUTE}e 'quoted'"):
        await here.publish(text)
    await first.wait_for("thr\N{LATIN SMALL LETTER E WITH ACUTE}e 'quoted'")
    await second.wait_for("thr\N{LATIN SMALL LETTER E WITH ACUTE}e 'quoted'")

    assert first.texts == second.texts == ["one", "two", "thr\N{LATIN SMALL LETTER E WITH ACUTE}e 'quoted'"]


async def test_a_listener_that_has_ended_hears_nothing_more(board: Callable[[], NoticeBoard]) -> None:
    ended, heard = Heard(), Heard()
    notices = board()
    end = await notices.subscribe(ended)
    await notices.subscribe(heard)
    end()
    end()

    await notices.publish("later")
    await heard.wait_for("later")

    assert ended.texts == []


@pytest.mark.parametrize("text", ["", "x" * 7_001])
async def test_an_empty_or_long_notice_is_refused(board: Callable[[], NoticeBoard], text: str) -> None:
    with pytest.raises(UsageError):
        await board().publish(text)


async def test_notices_of_many_publishers_all_arrive(board: Callable[[], NoticeBoard]) -> None:
    heard, notices = Heard(), board()
    await notices.subscribe(heard)

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(notices.publish, str(number))
    await notices.publish("last")
    await heard.wait_for("last")

    assert sorted(heard.texts[:-1], key=int) == [str(number) for number in range(50)]


def test_a_journal_in_a_file_has_no_notices(tmp_path: object) -> None:
    assert Journal.sqlite(f"{tmp_path}/journal.db").notices is None


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_listener_learns_that_notices_may_be_lost_after_a_lost_connection(postgres_dsn: str) -> None:
    heard, journal = Heard(), postgres_place(postgres_dsn).journal()
    notices = journal.notices
    assert notices is not None
    await notices.subscribe(heard)
    await execute(
        postgres_dsn,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'spindle journal'",
    )

    await heard.wait_for("")
    await notices.publish("again")
    await heard.wait_for("again")

    assert heard.texts == ["", "again"]
