"""fastmcp's proxy in front of several servers: `fastmcp_gateway.py PORT ADDRESSES`."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# The library lives in another environment than the type checker's.

import json
import logging
import sys

from fastmcp.server import create_proxy

if __name__ == "__main__":
    logging.disable(logging.WARNING)
    servers = {name: {"url": url, "transport": "http"} for name, url in json.loads(sys.argv[2]).items()}
    proxy = create_proxy({"mcpServers": servers}, name="proxy")
    proxy.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), path="/mcp", show_banner=False)
