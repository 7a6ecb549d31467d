"""The logins of a configuration: tokens in the state folder, sealed with the state key."""

import shlex
from collections.abc import Iterable, Iterator

from spindle import execution
from spindle.cli.config.loader import Config
from spindle.cli.runtime_servers import build_server_secret_lookup, build_specs
from spindle.cli.runtime_stores import read_state_key
from spindle.extras import needs_extra
from spindle.mcp import oauth
from spindle.mcp.spec import ServerSpec

FOLDER = "logins"


def build_logins(config: Config, specs: Iterable[ServerSpec]) -> "oauth.Logins | None":
    """Return the logins of users, or `None` if no server uses OAuth.

    Raises:
        InvalidConfigError: The state key cannot be read or created.
        MissingExtraError: The extra `oauth` is not installed.
    """
    if not any(spec.oauth is not None for spec in specs):
        return None
    with needs_extra("oauth", purpose="logging in to MCP servers"):
        key = execution.StateKey(read_state_key(config))
        store = oauth.TokenStore(config.state / FOLDER, key)
        return oauth.Logins(store, resolve=build_server_secret_lookup(config))


def describe_logins(config: Config) -> Iterator[tuple[str, str, str | None]]:
    """Yield each server with OAuth, who has logged in, and the command to run if a user must."""
    specs = [spec for spec in build_specs(config) if spec.oauth is not None]
    logins = build_logins(config, specs)
    for spec in specs if logins is not None else ():
        users = [] if logins is None else [logins.describe(spec, user) for user in logins.list_users(spec)]
        stale = [status.user for status in users if status.state == "needs login"]
        if not users:
            yield spec.name, "no user has logged in", f"spindle login {spec.name}"
        elif stale:
            command = shlex.join(["spindle", "login", spec.name, "--user", stale[0]])
            yield spec.name, f"{len(stale)} of {len(users)} users must log in again", command
        else:
            yield spec.name, f"{len(users)} user{'' if len(users) == 1 else 's'} logged in", None
