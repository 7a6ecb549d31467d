"""The logins of a configuration: tokens in the state folder, sealed with the state key."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from spindle.cli.config.loader import Config
from spindle.cli.runtime_servers import build_server_secret_lookup
from spindle.cli.runtime_stores import read_state_key
from spindle.extras import needs_extra
from spindle.mcp.spec import ServerSpec

if TYPE_CHECKING:  # it needs the extra `oauth`
    from spindle.mcp.oauth.logins import Logins

FOLDER = "logins"


def build_logins(config: Config, specs: Iterable[ServerSpec]) -> "Logins | None":
    """Return the logins of users, or `None` if no server uses OAuth.

    Raises:
        InvalidConfigError: The state key cannot be read or created.
        MissingExtraError: The extra `oauth` is not installed.
    """
    if not any(spec.oauth is not None for spec in specs):
        return None
    with needs_extra("oauth", purpose="logging in to MCP servers"):
        from spindle.execution.state_key import StateKey  # noqa: PLC0415 - an extra
        from spindle.mcp.oauth.logins import Logins  # noqa: PLC0415 - an extra
        from spindle.mcp.oauth.token_store import TokenStore  # noqa: PLC0415 - an extra
    store = TokenStore(config.state / FOLDER, StateKey(read_state_key(config)))
    return Logins(store, resolve=build_server_secret_lookup(config))
