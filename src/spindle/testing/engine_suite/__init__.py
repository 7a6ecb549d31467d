"""The suite that every engine passes: eleven scenarios with worker processes that are killed; see `scenarios.py`.

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
    from spindle.testing.engine_suite.worker_process import WorkerProcess as WorkerProcess
else:
    __getattr__, __dir__ = open_door(__name__)
