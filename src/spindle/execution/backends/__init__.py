"""Where sync handlers run: daemon threads (`threads.py`) or killable processes (`processes.py`, `child.py`)."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.execution.backends.processes import ProcessRunner as ProcessRunner
else:
    __getattr__, __dir__ = open_door(__name__)
