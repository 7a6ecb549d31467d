"""The `spindle` command line; start reading at `main.py`."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.cli.config.loader import load_config as load_config
    from spindle.cli.page import is_page_served as is_page_served
    from spindle.cli.runtime import Runtime as Runtime
    from spindle.cli.runtime import open_runtime as open_runtime
    from spindle.cli.runtime_apis import register_apis as register_apis
    from spindle.cli.runtime_engine import check_engine as check_engine
    from spindle.cli.runtime_engine import open_engine as open_engine
    from spindle.cli.runtime_flow import FlowDeclarations as FlowDeclarations
    from spindle.cli.runtime_flow import add_typed_arguments as add_typed_arguments
    from spindle.cli.runtime_flow import build_flow_policy as build_flow_policy
    from spindle.cli.runtime_flow import check_names as check_names
    from spindle.cli.runtime_flow import declare_tools as declare_tools
    from spindle.cli.runtime_flow import find_missing as find_missing
    from spindle.cli.runtime_flow_profiles import build_profile_flow as build_profile_flow
    from spindle.cli.runtime_lock import read_lock_policy as read_lock_policy
    from spindle.cli.runtime_logins import build_logins as build_logins
else:
    __getattr__, __dir__ = open_door(__name__)
