"""What a tool may reach: declared on the tool, served by backends; open `declare.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.capabilities.attachments import AttachmentsBackend as AttachmentsBackend
    from spindle.capabilities.backends.files import FilesBackend as FilesBackend
    from spindle.capabilities.backends.http import NetworkBackend as NetworkBackend
    from spindle.capabilities.backends.processes import ProcessBackend as ProcessBackend
    from spindle.capabilities.backends.secrets import SecretsBackend as SecretsBackend
    from spindle.capabilities.backends.secrets import from_env as from_env
    from spindle.capabilities.backends.secrets import from_file as from_file
    from spindle.capabilities.declare import Capabilities as Capabilities
    from spindle.capabilities.declare import FileReach as FileReach
    from spindle.capabilities.hosts import HostList as HostList
    from spindle.capabilities.hosts import normalise_host as normalise_host
    from spindle.capabilities.process import ProcessLimits as ProcessLimits
    from spindle.capabilities.resolve import Backends as Backends
    from spindle.capabilities.scope import CallScope as CallScope
    from spindle.capabilities.secrets import Redactor as Redactor
    from spindle.capabilities.secrets import Secret as Secret
    from spindle.capabilities.storage import StorageBackend as StorageBackend
    from spindle.capabilities.storage import StorageQuota as StorageQuota
    from spindle.capabilities.validating import validate as validate
else:
    __getattr__, __dir__ = open_door(__name__)
