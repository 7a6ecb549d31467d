"""The line from a worker to the process that waits: whole frames, or none."""

import os
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from spindle.errors import NotSendableError, UsageError, WorkerDiedError
from spindle.execution.backends.child import ChildLink
from spindle.execution.backends.processes import ProcessRunner

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")]


@pytest.fixture
def pool() -> ProcessRunner:
    return ProcessRunner(4)


async def test_threads_of_the_worker_may_send_large_messages_at_once(pool: ProcessRunner) -> None:
    received: list[bytes] = []

    def chatter(link: ChildLink) -> None:
        letters = [bytes([65 + number]) * 300_000 for number in range(4)]
        threads = [threading.Thread(target=link.send, args=(letter,)) for letter in letters]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    await pool.run(chatter, on_message=received.append)

    assert sorted(received) == [bytes([65 + number]) * 300_000 for number in range(4)]


async def test_a_message_that_is_not_data_is_refused_where_it_is_sent(pool: ProcessRunner) -> None:
    def send(link: ChildLink) -> str:
        with pytest.raises(NotSendableError):
            link.send(threading.Lock())
        return "still here"

    assert await pool.run(send) == "still here"


@pytest.mark.slow
@pytest.mark.parametrize("spoilt", [b"r", b"r\x00\x00", b"nonsense that is long enough"])
async def test_partial_answers_and_nonsense_are_rejected(pool: ProcessRunner, spoilt: bytes) -> None:
    def spoil_the_pipe(link: ChildLink) -> str:
        write = os.write

        def write_nonsense(descriptor: int, data: bytes) -> NoReturn:
            write(descriptor, spoilt)
            os._exit(0)

        os.write = write_nonsense  # only in this process
        return "lost"

    with pytest.raises(WorkerDiedError):
        await pool.run(spoil_the_pipe)


async def test_a_handler_that_closes_our_pipe_spoils_none_of_its_own_files(pool: ProcessRunner, tmp_path: Path) -> None:
    def reckless(link: ChildLink) -> str:
        os.closerange(3, 256)
        for number in range(50):
            os.open(tmp_path / str(number), os.O_WRONLY | os.O_CREAT)
        return "lost"

    with pytest.raises(WorkerDiedError) as caught:
        await pool.run(reckless)

    assert caught.value.exit_code not in {0, None}
    assert {(tmp_path / str(number)).read_bytes() for number in range(50)} == {b""}


async def test_a_process_forked_by_the_worker_cannot_answer_in_its_place(pool: ProcessRunner) -> None:
    def fork_and_send(link: ChildLink) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                link.send("from the grandchild")
            except UsageError:
                os._exit(9)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert await pool.run(fork_and_send) == 9
