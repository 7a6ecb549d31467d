"""One process at a time."""

import os
from pathlib import Path

import pytest

from spindle.errors import JournalLockedError
from spindle.journal.backends.sqlite_recovery import ProcessLock
from tests.journal.backends.programs import holding


def test_a_lock_is_free_again_after_it_was_released(tmp_path: Path) -> None:
    first = ProcessLock.acquire(tmp_path / "journal.db")
    first.release()
    first.release()
    second = ProcessLock.acquire(tmp_path / "journal.db")
    second.release()

    assert (first.is_first, second.is_first) == (True, False)


def test_a_lock_that_is_held_is_refused_with_the_holder(tmp_path: Path) -> None:
    with holding(tmp_path / "journal.db") as pid, pytest.raises(JournalLockedError) as caught:
        ProcessLock.acquire(tmp_path / "journal.db")

    assert caught.value.holder_pid == pid


def test_a_lock_under_another_name_of_this_process_says_so(tmp_path: Path) -> None:
    lock = ProcessLock.acquire(tmp_path / "journal.db")
    with pytest.raises(JournalLockedError) as caught:
        ProcessLock.acquire(tmp_path / "journal.db")
    lock.release()

    assert caught.value.holder_pid == os.getpid()


def test_a_note_that_says_nothing_names_nobody(tmp_path: Path) -> None:
    lock = ProcessLock.acquire(tmp_path / "journal.db")
    (tmp_path / "journal.db.lock").write_text("who knows")
    with pytest.raises(JournalLockedError) as caught:
        ProcessLock.acquire(tmp_path / "journal.db")
    lock.release()

    assert caught.value.holder_pid is None


def test_a_lock_is_never_taken_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep")
    (tmp_path / "journal.db.lock").symlink_to(tmp_path / "precious")

    with pytest.raises(OSError, match=r"."):
        ProcessLock.acquire(tmp_path / "journal.db")
    assert (tmp_path / "precious").read_text() == "keep"
