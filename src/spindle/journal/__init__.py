"""The durable record of calls: an intent before each call, an outcome after it; open `journal.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.journal.backends.memory import MemoryJournalStore as MemoryJournalStore
    from spindle.journal.entries import Claim as Claim
    from spindle.journal.entries import FinishedCall as FinishedCall
    from spindle.journal.entries import Intent as Intent
    from spindle.journal.entries import JournalEntry as JournalEntry
    from spindle.journal.entries import Outcome as Outcome
    from spindle.journal.entries import Row as Row
    from spindle.journal.journal import Journal as Journal
    from spindle.journal.notices import NoticeBoard as NoticeBoard
    from spindle.journal.search import CallScanner as CallScanner
    from spindle.journal.search import Scan as Scan
    from spindle.journal.search import ScanStep as ScanStep
    from spindle.journal.states import StateQuery as StateQuery
    from spindle.journal.states import StateRecord as StateRecord
    from spindle.journal.states import StateStore as StateStore
    from spindle.journal.summaries import CallPage as CallPage
    from spindle.journal.summaries import CallQuery as CallQuery
    from spindle.journal.summaries import CallSummary as CallSummary
    from spindle.journal.summaries import SummaryRow as SummaryRow
    from spindle.tools.identity import idempotency_key as idempotency_key
else:
    __getattr__, __dir__ = open_door(__name__)
