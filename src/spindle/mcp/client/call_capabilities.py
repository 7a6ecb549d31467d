"""`CallCapabilities`: declares to a server, for each call, what the client behind that call can be asked.

On the newer protocol every request declares the capabilities of its client. The SDK declares the same for all requests
of a connection, but the calls of one connection come from different clients.
"""

from types import TracebackType
from typing import Any, Final, Self

from mcp.shared.message import SessionMessage
from mcp_types import CLIENT_CAPABILITIES_META_KEY, JSONRPCRequest

from spindle.json_types import JsonObject, is_object

_MARK: Final = "spindle/capabilities"
_ASKED: Final = ("elicitation", "sampling", "roots")


def mark_capabilities(capabilities: JsonObject | None) -> Any:
    """Return the `_meta` of a request that declares these capabilities; they never reach the server in this form."""
    return None if capabilities is None else {_MARK: capabilities}


class CallCapabilities:
    """The stream of outgoing messages, in which the capabilities of marked requests are replaced."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def send(self, item: SessionMessage) -> None:
        """Send a message."""
        message = item.message
        meta = (message.params or {}).get("_meta") if isinstance(message, JSONRPCRequest) else None
        if is_object(meta) and _MARK in meta:
            wanted = meta.pop(_MARK)
            declared = meta.get(CLIENT_CAPABILITIES_META_KEY)
            if is_object(declared) and is_object(wanted):
                others = {name: value for name, value in declared.items() if name not in _ASKED}
                meta[CLIENT_CAPABILITIES_META_KEY] = others | wanted
        await self._inner.send(item)

    async def aclose(self) -> None:
        """Close the inner stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)
