"""The process capability: the programs a tool may run and the sandbox they run in; open `policy.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.capabilities.process.backend import ProcessBackend as ProcessBackend
    from spindle.capabilities.process.policy import SEARCH_PATH as SEARCH_PATH
    from spindle.capabilities.process.policy import SHELL as SHELL
    from spindle.capabilities.process.policy import CommandRules as CommandRules
    from spindle.capabilities.process.policy import Finished as Finished
    from spindle.capabilities.process.policy import Process as Process
    from spindle.capabilities.process.policy import ProcessLimits as ProcessLimits
    from spindle.capabilities.process.policy import SandboxMode as SandboxMode
    from spindle.capabilities.process.policy import check_argv as check_argv
    from spindle.capabilities.process.policy import check_commands as check_commands
    from spindle.capabilities.process.policy import check_cwd as check_cwd
    from spindle.capabilities.process.policy import check_env as check_env
    from spindle.capabilities.process.policy import check_env_names as check_env_names
    from spindle.capabilities.process.policy import check_stdin as check_stdin
    from spindle.capabilities.process.policy import check_timeout as check_timeout
    from spindle.capabilities.process.policy import is_code_variable as is_code_variable
else:
    __getattr__, __dir__ = open_door(__name__)
