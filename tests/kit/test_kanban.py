"""A board of tickets on a real storage backend."""

import json
from pathlib import Path

import pytest

from spindle import Ok
from spindle.execution import ReduceInfo
from spindle.kit.kanban import kanban_add, kanban_comment, kanban_list, kanban_move, kanban_show
from spindle.kit.reducers import kanban_list_reducer
from tests.kit.calling import Workshop
from tests.kit.keeping import Kept

pytestmark = pytest.mark.anyio


@pytest.fixture
def board() -> Kept:
    return Kept("kanban")


async def test_tickets_are_listed_in_the_order_they_came(board: Kept) -> None:
    titles = [f"ticket {number}" for number in range(5)]
    for title in titles:
        await board.call(kanban_add, title=title)

    listed = await board.call(kanban_list)

    assert [ticket["title"] for ticket in listed] == titles
    assert all(ticket.keys() == {"id", "title", "status", "updated_at"} for ticket in listed)
    assert {ticket["status"] for ticket in listed} == {"todo"}
    assert len({ticket["id"] for ticket in listed}) == 5


async def test_a_ticket_moves_and_is_updated(board: Kept) -> None:
    added = await board.call(kanban_add, title="a")

    moved = await board.call(kanban_move, id=added["id"], status=" Done ")

    assert moved["status"] == "done"
    assert moved["updated_at"] > added["updated_at"]
    assert await board.call(kanban_list, status="todo") == []
    assert [ticket["id"] for ticket in await board.call(kanban_list, status="DONE")] == [added["id"]]


async def test_comments_are_kept_in_order(board: Kept) -> None:
    number = (await board.call(kanban_add, title="a"))["id"]
    for text in ("first", "second"):
        await board.call(kanban_comment, id=number, text=text)

    shown = await board.call(kanban_show, id=number)

    assert [comment["text"] for comment in shown["comments"]] == ["first", "second"]
    assert shown["updated_at"] == shown["comments"][-1]["at"]


@pytest.mark.parametrize(
    ("tool", "args"), [(kanban_show, {}), (kanban_move, {"status": "done"}), (kanban_comment, {"text": "x"})]
)
async def test_a_ticket_that_is_not_there_is_an_error(board: Kept, tool: object, args: dict[str, str]) -> None:
    error = await board.err(tool, id="nowhere", **args)  # pyright: ignore[reportArgumentType]  parametrised

    assert (error.code, error.field) == ("input_invalid", "id")


async def test_each_session_has_its_own_board(board: Kept) -> None:
    await board.call(kanban_add, title="mine")

    assert await board.call(kanban_list, session="s2") == []


async def test_the_reducer_sums_up_the_real_board(board: Kept) -> None:
    numbers = [(await board.call(kanban_add, title=f"ticket {number}"))["id"] for number in range(12)]
    await board.call(kanban_move, id=numbers[0], status="done")
    await board.call(kanban_move, id=numbers[1], status="cancelled")
    await board.call(kanban_move, id=numbers[2], status="doing")
    text = json.dumps(await board.call(kanban_list))

    reduced = kanban_list_reducer.reduce(Ok(text), ReduceInfo({}, 0))

    assert isinstance(reduced, Ok)
    newest = [2, 11, 10, 9, 8]
    top = "; ".join(f"{numbers[number]}: ticket {number}" for number in newest)
    assert reduced.value == f"Counts by status: done=1, cancelled=1, doing=1, todo=9. Top 5 open: {top}"


async def test_the_tools_of_the_board_share_it_under_an_executor(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    added = await workshop.ok("kanban_add", title="a")

    listed = await workshop.ok("kanban_list")

    assert [ticket["id"] for ticket in listed.structured] == [added.structured["id"]]
    assert not listed.trusted
