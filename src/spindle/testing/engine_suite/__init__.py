"""The suite that every engine passes, with worker processes that are killed: calls in `scenarios.py`, then turns.

Workers load the tools of the suite as `spindle.testing.engine_suite.tools:build_tools`.
"""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.testing.engine_suite.scenarios import SCENARIOS as SCENARIOS
    from spindle.testing.engine_suite.scenarios import Case as Case
    from spindle.testing.engine_suite.scenarios import EngineHarness as EngineHarness
    from spindle.testing.engine_suite.scenarios import SuiteReply as SuiteReply
    from spindle.testing.engine_suite.scenarios import WorkerHandle as WorkerHandle
    from spindle.testing.engine_suite.scenarios import run_scenario as run_scenario
    from spindle.testing.engine_suite.tools import VARIANT as VARIANT
    from spindle.testing.engine_suite.tools import build_tools as build_tools
    from spindle.testing.engine_suite.turn_scenarios import TURN_SCENARIOS as TURN_SCENARIOS
    from spindle.testing.engine_suite.turn_scenarios import TurnCase as TurnCase
    from spindle.testing.engine_suite.turn_scenarios import TurnHarness as TurnHarness
    from spindle.testing.engine_suite.turn_scenarios import TurnReply as TurnReply
    from spindle.testing.engine_suite.turn_scenarios import build_turn_runner as build_turn_runner
    from spindle.testing.engine_suite.turn_scenarios import run_turn_scenario as run_turn_scenario
    from spindle.testing.engine_suite.worker_process import WorkerProcess as WorkerProcess
else:
    __getattr__, __dir__ = open_door(__name__)
