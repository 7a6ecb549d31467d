"""The network capability: the hosts a tool may reach and the HTTP client limited to them; open `handle.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.capabilities.network.backend import NetworkBackend as NetworkBackend
    from spindle.capabilities.network.handle import ACCEPTED_CODINGS as ACCEPTED_CODINGS
    from spindle.capabilities.network.handle import REDIRECTS as REDIRECTS
    from spindle.capabilities.network.handle import Body as Body
    from spindle.capabilities.network.handle import Data as Data
    from spindle.capabilities.network.handle import Headers as Headers
    from spindle.capabilities.network.handle import Network as Network
    from spindle.capabilities.network.handle import Outgoing as Outgoing
    from spindle.capabilities.network.handle import Reach as Reach
    from spindle.capabilities.network.handle import Response as Response
    from spindle.capabilities.network.handle import check_addresses as check_addresses
    from spindle.capabilities.network.handle import outgoing as outgoing
    from spindle.capabilities.network.handle import redirected as redirected
    from spindle.capabilities.network.hosts import HostList as HostList
    from spindle.capabilities.network.hosts import normalise_host as normalise_host
else:
    __getattr__, __dir__ = open_door(__name__)
