"""Finding, reading and validating `spindle.toml`; start reading at `loader.py`."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.cli.config.loader import MAX_FILE_BYTES as MAX_FILE_BYTES
    from spindle.cli.config.loader import Config as Config
    from spindle.cli.config.loader import MakeError as MakeError
    from spindle.cli.config.loader import load_config as load_config
else:
    __getattr__, __dir__ = open_door(__name__)
