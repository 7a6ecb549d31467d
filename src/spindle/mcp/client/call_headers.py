"""The extra headers of a call over HTTP, as the caller's function returns them."""

import inspect
from collections.abc import Mapping
from typing import cast

from spindle.capabilities.secrets.secret import Redactor, Secret
from spindle.errors import UpstreamError
from spindle.json_types import untyped
from spindle.mcp.client.lifecycle import CallHeaders, HeaderMapping
from spindle.mcp.spec import is_custom_header
from spindle.tools.context import ToolContext


async def get_call_headers(
    callback: CallHeaders | None, server: str, ctx: ToolContext, redactor: Redactor
) -> dict[str, str]:
    """Return the extra headers of a call; a `Secret` among them is added to the redactor.

    Raises:
        UpstreamError: The callback failed, or a header is invalid.
    """
    if callback is None:
        return {}
    try:
        given = callback(server, ctx)
        found = untyped(await given if inspect.isawaitable(given) else given)
    except Exception as error:
        raise UpstreamError(
            f"the headers callback failed for a call to MCP server {server!r}", server=server
        ) from error
    if not isinstance(found, Mapping):
        kind = type(found).__name__
        raise UpstreamError(
            f"the headers of a call to MCP server {server!r} must be a mapping, not a {kind}", server=server
        )
    return {str(name): _text(server, name, value, redactor) for name, value in cast("HeaderMapping", found).items()}


def _text(server: str, name: object, value: object, redactor: Redactor) -> str:
    if isinstance(value, Secret):
        redactor.add(value)
    text = value.reveal() if isinstance(value, Secret) else value
    if not is_custom_header(name) or not isinstance(text, str) or not text.isascii() or not text.isprintable():
        # The value may be secret, so the message omits it.
        raise UpstreamError(f"invalid header {name!r:.80} for a call to MCP server {server!r}", server=server)
    return text
