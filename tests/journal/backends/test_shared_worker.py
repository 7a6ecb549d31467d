"""A store's handle on a worker: acquired once, replaced after its end, released on close or garbage collection."""

import gc

import pytest

from spindle.errors import JournalError
from spindle.journal.backends.shared_worker import SharedWorkerHandle


class Hand:
    """A worker that does nothing, and remembers."""

    def __init__(self, *, takes: int = 100) -> None:
        self.is_own_process = True
        self.taken: list[object] = []
        self.left = 0
        self._takes = takes

    def submit(self, ticket: object) -> bool:
        self.taken.append(ticket) if len(self.taken) < self._takes else None
        return ticket in self.taken

    def withdraw(self, ticket: object) -> bool:
        return ticket == "in time"

    def remove_user(self, close_request: object = None) -> None:
        del close_request
        self.left += 1


def lent(*hands: Hand) -> SharedWorkerHandle[Hand]:
    row = iter(hands)
    return SharedWorkerHandle(lambda: next(row), closed_error=lambda: JournalError("closed"))


def test_worker_is_acquired_with_the_first_ticket_and_kept() -> None:
    hand = Hand()
    loan = lent(hand)
    loan.submit("a")
    loan.submit("b")

    assert hand.taken == ["a", "b"]


def test_worker_that_has_ended_is_replaced() -> None:
    first, second = Hand(takes=1), Hand()
    loan = lent(first, second)
    for ticket in "ab":
        loan.submit(ticket)

    assert (first.taken, second.taken) == (["a"], ["b"])


def test_closed_handle_rejects_tickets_until_it_is_opened() -> None:
    hand, other = Hand(), Hand()
    loan = lent(hand, other)
    loan.submit("a")

    assert loan.close() is hand
    assert loan.close() is None
    with pytest.raises(JournalError):
        loan.submit("b")
    loan.open()
    loan.submit("c")
    assert other.taken == ["c"]


def test_forked_child_does_not_release_the_worker_of_its_parent() -> None:
    hand = Hand()
    loan = lent(hand)
    loan.submit("a")
    hand.is_own_process = False

    assert loan.close() is None


def test_ticket_that_was_already_taken_is_undone() -> None:
    hand = Hand()
    loan = lent(hand)
    loan.withdraw("never asked", undo="undone")
    loan.submit("a")
    loan.withdraw("in time", undo="undone")
    loan.withdraw("late", undo="undone")

    assert hand.taken == ["a", "undone"]


@pytest.mark.parametrize("is_closed", [False, True])
def test_garbage_collected_handle_releases_its_worker_unless_closed(is_closed: bool) -> None:
    hand = Hand()
    loan = lent(hand)
    loan.submit("a")
    if is_closed:
        loan.close()
    del loan
    gc.collect()

    assert hand.left == (0 if is_closed else 1)
