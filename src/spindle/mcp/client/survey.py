"""A survey of servers for the lock: what each offers, and whether it offers the same to another client."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio

from spindle.errors import SpindleError
from spindle.events import Events
from spindle.json_types import JsonObject
from spindle.mcp.client.servers import McpServers, SecretResolver
from spindle.mcp.lock.comparison import DefinitionChange, FactChange, ServerChanges, compare_servers
from spindle.mcp.lock.lock_file import LockedServer
from spindle.mcp.lock.origin import describe_origin
from spindle.mcp.spec import ServerSpec

if TYPE_CHECKING:  # it needs the extra `oauth`
    from spindle.mcp.oauth.logins import Logins

OTHER_CLIENT = "claude-ai"
"""The name of the second client: one that a server which picks its victims would look for."""
_SPARE_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SurveyUser:
    """The user as whom servers with OAuth are connected."""

    name: str | None = None
    """`None` is the only user of this program."""
    logins: "Logins | None" = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerSurvey:
    """What was found out about one server."""

    name: str
    found: LockedServer | None = None
    """What it offers; `None` if it cannot be reached."""
    error: str | None = None
    """Why it cannot be reached."""
    unreadable: tuple[DefinitionChange, ...] = ()
    """Definitions that a lock cannot hold."""
    per_client: ServerChanges = field(default_factory=ServerChanges)
    """What it answered differently to a second client."""

    def get_lockable(self) -> LockedServer | None:
        """Return what can be locked: without definitions that are not the same for every client."""
        if self.found is None:
            return None
        unstable = {(change.kind, change.name) for change in self.per_client.definitions}
        definitions = {
            kind: {name: each for name, each in named.items() if (kind, name) not in unstable}
            for kind, named in self.found.definitions.items()
        }
        return replace(self.found, definitions={kind: named for kind, named in definitions.items() if named})


async def survey_servers(
    specs: Sequence[ServerSpec],
    *,
    secrets: SecretResolver | None = None,
    events: Events | None = None,
    origins: Mapping[str, JsonObject] | None = None,
    twice: bool = True,
    user: SurveyUser | None = None,
) -> list[ServerSurvey]:
    """Connect to each server, with `twice` as two different clients one after the other, and return what they offer.

    Servers with OAuth are connected as `user`.
    """
    by_user = SurveyUser() if user is None else user
    first = await _describe_all(specs, secrets, events, "spindle", by_user)
    second: dict[str, ServerSurvey] = {}
    if twice:
        reached = [spec for spec in specs if first[spec.name].found is not None]
        others = [_introduce_as(spec, OTHER_CLIENT) for spec in reached]
        second = await _describe_all(others, secrets, events, OTHER_CLIENT, by_user)
    return [_merge(spec, first[spec.name], second.get(spec.name), origins) for spec in specs]


def _introduce_as(spec: ServerSpec, client: str) -> ServerSpec:
    if spec.url is None or any(name.lower() == "user-agent" for name in (*spec.headers, *spec.header_secrets)):
        return spec
    return replace(spec, headers={**spec.headers, "User-Agent": f"{client}/1.0"})


async def _describe_all(
    specs: Sequence[ServerSpec],
    secrets: SecretResolver | None,
    events: Events | None,
    client: str,
    user: SurveyUser,
) -> dict[str, ServerSurvey]:
    surveys: dict[str, ServerSurvey] = {}
    lenient = [replace(spec, required=False, enabled=True) for spec in specs]
    async with McpServers(lenient, secrets=secrets, logins=user.logins, events=events, client_name=client) as servers:

        async def describe(spec: ServerSpec) -> None:
            surveys[spec.name] = await _describe(servers, spec, user.name)

        async with anyio.create_task_group() as group:
            for spec in specs:
                group.start_soon(describe, spec)
    return surveys


async def _describe(servers: McpServers, spec: ServerSpec, user: str | None) -> ServerSurvey:
    try:
        with anyio.fail_after(spec.start_timeout_seconds + spec.timeout_seconds + _SPARE_SECONDS):
            found, unreadable = await servers.describe(spec.name, user=user)
    except TimeoutError:
        return ServerSurvey(name=spec.name, error="it did not start and list everything in time")
    except SpindleError as error:
        return ServerSurvey(name=spec.name, error=str(error))
    return ServerSurvey(name=spec.name, found=found, unreadable=tuple(unreadable))


def _merge(
    spec: ServerSpec, first: ServerSurvey, second: ServerSurvey | None, origins: Mapping[str, JsonObject] | None
) -> ServerSurvey:
    if first.found is None:
        return first
    origin = (origins or {}).get(spec.name) or describe_origin(command=spec.command, args=spec.args, url=spec.url)
    survey = replace(first, found=replace(first.found, origin=origin))
    if second is None:
        return survey
    if second.found is None:
        lost = FactChange(fact="connection", before="connected", after=second.error)
        return replace(survey, per_client=ServerChanges(facts=(lost,)))
    return replace(survey, per_client=compare_servers(first.found, second.found))
