"""Parts that not every context needs; each one loads its module on first use, like the names of a package's door."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.tools.context_flow import ContextFlow as ContextFlow
else:
    __getattr__, __dir__ = open_door(__name__)
