"""The `spindle` command line; start reading at `main.py`."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.cli.config.loader import load_config as load_config
    from spindle.cli.runtime import Runtime as Runtime
    from spindle.cli.runtime import open_runtime as open_runtime
    from spindle.cli.runtime_apis import register_apis as register_apis
    from spindle.cli.runtime_engine import check_engine as check_engine
    from spindle.cli.runtime_engine import open_engine as open_engine
    from spindle.cli.runtime_lock import read_lock_policy as read_lock_policy
else:
    __getattr__, __dir__ = open_door(__name__)
