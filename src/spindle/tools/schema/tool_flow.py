"""What a flow policy knows about a tool: labels, the roles of its arguments, and the records it returns."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from spindle.calls import Label
from spindle.capabilities.declare import Capabilities
from spindle.errors import InvalidToolError, InvalidTrustError
from spindle.json_types import is_mapping
from spindle.stash import FrozenStash
from spindle.text import did_you_mean, join_options, quote_name
from spindle.tools.schema.base import Schema
from spindle.tools.schema.role_paths import collect_defaults, collect_keys, find_unknown_path
from spindle.trust.flow.roles import Produces, Role, ToolFlow, read_role

REMOTE_META: Final = ("mcp.server", "openapi.server")
"""Paths in `Tool.meta` of tools that run elsewhere, so everything they are given leaves this process."""


def read_produces(given: object) -> Produces | None:
    """Return what `Tool(produces=…)` says.

    Raises:
        InvalidTrustError: It is neither a kind nor a kind with a path.
    """
    return Produces.read(given)


def read_roles(given: object) -> Mapping[str, Role]:
    """Return what `Tool(roles=…)` says.

    Raises:
        InvalidTrustError: It is not a mapping of paths to roles.
    """
    if not is_mapping(given) or not all(isinstance(path, str) and all(path.split(".")) for path in given):
        raise InvalidTrustError(
            f"Expected a mapping of arguments, such as 'to' or 'items.*.url', to roles, got {given!r:.80}.",
            field="roles",
        )
    return MappingProxyType({str(path): read_role(role, field_name=str(path)) for path, role in given.items()})


class DeclaredTool(Protocol):
    """The attributes of a `Tool` that a policy knows."""

    name: str
    output: Label
    trusted: bool
    read_only: bool
    destructive: bool
    is_artifact_reader: bool
    capabilities: Capabilities
    meta: FrozenStash
    produces: Produces | None
    roles: Mapping[str, Role]


def build_flow(tool: DeclaredTool, schema: Schema) -> ToolFlow:
    """Collect what a policy knows about a tool.

    Raises:
        InvalidToolError: `Tool(roles=…)` names a path that is not an argument.
    """
    check_roles(tool.name, tool.roles, schema)
    described = schema.json_schema()
    is_remote = any(map(tool.meta.has, REMOTE_META))
    return ToolFlow(
        name=tool.name,
        output=tool.output,
        read_only=tool.read_only,
        destructive=tool.destructive,
        is_reader=tool.is_artifact_reader,
        reaches_network=tool.capabilities.network is not None or is_remote,
        produces=tool.produces,
        roles=MappingProxyType({**schema.roles(), **tool.roles}),
        # The author of a server chooses its defaults, and is not the developer.
        defaults=MappingProxyType({} if is_remote and not tool.trusted else collect_defaults(described)),
        keys=collect_keys(described),
    )


def check_roles(tool: str, roles: Mapping[str, Role], schema: Schema) -> None:
    """Check that every path in `Tool(roles=…)` is an argument.

    Raises:
        InvalidToolError: One is not; the message names the known ones.
    """
    unknown = find_unknown_path(schema.json_schema(), roles) if roles else None
    if unknown is None:
        return
    path, known = unknown
    shown = join_options(map(quote_name, known)) or "none"
    hint = did_you_mean(path, known)
    raise InvalidToolError(
        f"Tool {quote_name(tool)}: roles names {quote_name(path)}, which is not an argument; known: {shown}."
        f"{' ' if hint else ''}{hint}",
        tool=tool,
        field="roles",
    )
