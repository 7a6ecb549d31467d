"""OAuth 2.1: the tokens that our server accepts, and logins to upstream servers.

Inbound, read `verifier.py`; outbound, read `logins.py`. `settings.py` and `mcp/login_settings.py` have their settings.
"""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.mcp.login_settings import LoginSettings as LoginSettings
    from spindle.mcp.oauth.logins import Logins as Logins
    from spindle.mcp.oauth.logins import LoginStatus as LoginStatus
    from spindle.mcp.oauth.redirects import listen_for_redirect as listen_for_redirect
    from spindle.mcp.oauth.settings import ResourceSettings as ResourceSettings
    from spindle.mcp.oauth.token_store import TokenStore as TokenStore
else:
    __getattr__, __dir__ = open_door(__name__)
