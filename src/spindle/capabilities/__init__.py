"""Capabilities: the resources a tool declares and the backends that serve them; open `declare.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.capabilities.attachments import Attachments as Attachments
    from spindle.capabilities.attachments import AttachmentsBackend as AttachmentsBackend
    from spindle.capabilities.declare import CallScope as CallScope
    from spindle.capabilities.declare import Capabilities as Capabilities
    from spindle.capabilities.declare import CapabilityBackend as CapabilityBackend
    from spindle.capabilities.declare import FileReach as FileReach
    from spindle.capabilities.files.backend import FilesBackend as FilesBackend
    from spindle.capabilities.files.paths import Files as Files
    from spindle.capabilities.network.backend import NetworkBackend as NetworkBackend
    from spindle.capabilities.network.handle import Network as Network
    from spindle.capabilities.network.hosts import HostList as HostList
    from spindle.capabilities.network.hosts import normalise_host as normalise_host
    from spindle.capabilities.process.backend import ProcessBackend as ProcessBackend
    from spindle.capabilities.process.policy import Process as Process
    from spindle.capabilities.process.policy import ProcessLimits as ProcessLimits
    from spindle.capabilities.resolve import Backends as Backends
    from spindle.capabilities.resolve import Handles as Handles
    from spindle.capabilities.resolve import validate as validate
    from spindle.capabilities.secrets.backend import SecretsBackend as SecretsBackend
    from spindle.capabilities.secrets.backend import from_env as from_env
    from spindle.capabilities.secrets.backend import from_file as from_file
    from spindle.capabilities.secrets.secret import Redactor as Redactor
    from spindle.capabilities.secrets.secret import Secret as Secret
    from spindle.capabilities.secrets.secret import Secrets as Secrets
    from spindle.capabilities.storage.store import Storage as Storage
    from spindle.capabilities.storage.store import StorageBackend as StorageBackend
    from spindle.capabilities.storage.store import StorageQuota as StorageQuota
else:
    __getattr__, __dir__ = open_door(__name__)
