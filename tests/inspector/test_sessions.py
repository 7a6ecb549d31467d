"""The sessions of a journal are found in its calls, within bounds."""

import pytest

from spindle import Call, Executor, Journal, ToolContext, ToolRegistry, tool
from spindle.inspector import sessions

pytestmark = pytest.mark.anyio


@tool(trusted=True)
def count_to(number: int) -> str:
    """Count."""
    return "1 " * number


async def fill(journal: Journal, session_id: str, *numbers: int) -> None:
    executor = Executor(ToolRegistry([count_to]), journal=journal)
    context = ToolContext(session_id)
    for number in numbers:
        await executor.execute_parallel([Call(f"c{number}", "count_to", {"number": number})], context)


async def test_a_page_ends_where_it_has_read_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_STEP_CALLS", 5)
    monkeypatch.setattr(sessions, "_MAX_SCANNED", 10)
    journal = Journal.memory()
    await fill(journal, "old", 1)
    await fill(journal, "long", *range(1, 31))
    await fill(journal, "new", 1)
    found, cursor, pages = list[str](), None, 0
    while True:
        page = await sessions.list_sessions(journal, cursor=cursor, limit=10)
        found += [each.session_id for each in page.sessions]
        cursor, pages = page.next_cursor, pages + 1
        if cursor is None:
            break
    assert found == ["new", "long", "old"]
    assert pages > 2


async def test_calls_without_a_session_are_left_out() -> None:
    journal = Journal.memory()
    executor = Executor(ToolRegistry([count_to]), journal=journal)
    await executor.execute_parallel([Call("c", "count_to", {"number": 1})], ToolContext())
    await fill(journal, "s", 1)
    page = await sessions.list_sessions(journal)
    assert [each.session_id for each in page.sessions if each.session_id == "s"] == ["s"]
    assert page.next_cursor is None


async def test_a_long_session_is_read_from_its_newest_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_STEP_CALLS", 4)
    monkeypatch.setattr(sessions, "_KEYS_AT_ONCE", 3)
    journal = Journal.memory()
    await fill(journal, "s", *range(1, 12))
    calls = await sessions.find_calls(journal, "s")
    pages = [await sessions.read_entries(journal, page) for page in calls.split()]
    assert [[entry.args["number"] for entry in page] for page in pages] == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11]]
    assert (calls.is_complete, calls.tools, list(calls.split(-9))) == (True, {"count_to"}, [calls.keys[:2]])
    monkeypatch.setattr(sessions, "MAX_SESSION_CALLS", 5)
    fewer = await sessions.find_calls(journal, "s")
    assert (fewer.keys, fewer.is_complete) == (calls.keys[-5:], False)
    monkeypatch.setattr(sessions, "MAX_SESSION_CHARS", 1)
    fewer = await sessions.find_calls(journal, "s")
    assert (fewer.keys, fewer.is_complete) == (calls.keys[-1:], False)
