"""Short notices between the processes that share a journal, such as that a record has changed.

A notice is not kept. It reaches those who listen at that time, and may be lost together with a connection; so it only
says that there is something to look at, and who waits for something also looks from time to time.
"""

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from spindle.errors import UsageError

MAX_NOTICE_BYTES: Final = 7_000
"""PostgreSQL allows 8,000."""
LOST: Final = ""
"""The notice that others may have been lost: look at everything."""

Listener: TypeAlias = Callable[[str], None]


class NoticeBoard(Protocol):
    """The protocol of a backend for notices."""

    async def publish(self, text: str) -> None:
        """Send a notice to all who listen, in any process, this one included.

        Raises:
            UsageError: The notice is empty or too long.
            JournalError: It could not be sent.
        """
        ...

    async def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` on this event loop with each notice from now on; return a function that ends it.

        Notices of one publisher arrive in order, and may arrive twice. `LOST` means that some may have been lost.
        """
        ...


def check_notice(text: str) -> None:
    """Check that a notice can be sent.

    Raises:
        UsageError: It is empty or too long.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if not 0 < size <= MAX_NOTICE_BYTES:
        raise UsageError(
            f"A notice must have 1 to {MAX_NOTICE_BYTES} bytes, got {size}; keep the content in a record.", field="text"
        )
