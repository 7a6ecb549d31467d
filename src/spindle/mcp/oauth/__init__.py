"""OAuth 2.1: the tokens that our server accepts, and logins to upstream servers.

Inbound, read `verifier.py`; `settings.py` has what both can be told.
"""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.mcp.oauth.settings import LoginSettings as LoginSettings
    from spindle.mcp.oauth.settings import ResourceSettings as ResourceSettings
else:
    __getattr__, __dir__ = open_door(__name__)
