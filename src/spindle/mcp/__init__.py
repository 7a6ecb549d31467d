"""MCP in and out: other servers' tools as ours (`client.py`), and ours as one server (`server.py`, `gateway.py`)."""
