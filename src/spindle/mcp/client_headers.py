"""Headers that one call brings along, such as the token of the person it is made for."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias, cast

from spindle.capabilities.secrets import Redactor, Secret
from spindle.errors import UpstreamError
from spindle.mcp.spec import is_header
from spindle.tools.context import ToolContext

Given: TypeAlias = Mapping[str, str] | Mapping[str, Secret] | Mapping[str, str | Secret]
CallHeaders: TypeAlias = Callable[[str, ToolContext], Awaitable[Given] | Given]
"""Gives the headers of one call, by the server it goes to and the context it is made in."""


async def headers_of(give: CallHeaders | None, server: str, ctx: ToolContext, redactor: Redactor) -> dict[str, str]:
    """Ask for the headers of a call; a `Secret` among them is masked wherever it turns up later.

    Raises:
        UpstreamError: They cannot be had, or no request can carry them.
    """
    if give is None:
        return {}
    try:
        given = give(server, ctx)
        found = cast("object", await given if inspect.isawaitable(given) else given)
    except Exception as error:
        raise UpstreamError(f"the headers of a call to MCP server {server!r} cannot be had", server=server) from error
    if not isinstance(found, Mapping):
        kind = type(found).__name__
        raise UpstreamError(f"the headers of a call to MCP server {server!r} are a table, not a {kind}", server=server)
    return {str(name): _text(server, name, value, redactor) for name, value in cast("Given", found).items()}


def _text(server: str, name: object, value: object, redactor: Redactor) -> str:
    if isinstance(value, Secret):
        redactor.add(value)
    text = value.reveal() if isinstance(value, Secret) else value
    if not is_header(name) or not isinstance(text, str) or not text.isascii() or not text.isprintable():
        # Its value may be secret, so it is not shown.
        raise UpstreamError(f"a call to MCP server {server!r} cannot carry the header {name!r:.80}", server=server)
    return text
