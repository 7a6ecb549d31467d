"""The server of `offers.py` as an upstream server over stdio."""

import anyio
import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from offers import OFFERS  # type: ignore[import-not-found]  # found beside this file

listening = ListenHandler(InMemorySubscriptionBus())
OFFERS.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, listening)


async def main() -> None:
    async with stdio_server() as (incoming, outgoing):
        await OFFERS.run(incoming, outgoing, OFFERS.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
