"""Lowers a JSON Schema to the subset a provider accepts, reports each loss, and restores arguments of calls."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.bridges.schema_lowering.lowering import Lowered as Lowered
    from spindle.bridges.schema_lowering.lowering import lower as lower
    from spindle.bridges.schema_lowering.report import LossReport as LossReport
else:
    __getattr__, __dir__ = open_door(__name__)
