"""An MCP server whose every text is one of the naughty strings: `naughty_server.py STRINGS.json`, in plain JSON lines.

Each string is the text of two tools: of one, only what readers see; of the other one, also its name and its contract.
"""

import json
import sys
from pathlib import Path
from typing import Any

STRINGS: list[str] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))


def define(name: str, text: str, property_name: str) -> dict[str, Any]:
    """Return a definition with a text everywhere."""
    option = {"type": "string", "title": text, "description": text, "default": text, "examples": [text]}
    choice = {"type": "string", "enum": [text, "other"], "title": text, "description": text}
    nested = {"type": "object", "title": text, "description": text, "properties": {property_name: option}}
    schema = {
        "type": "object",
        "title": text,
        "description": text,
        "properties": {
            property_name: option,
            "choice": choice,
            "nested": nested,
            "list": {"type": "array", "items": option},
        },
    }
    return {"name": name, "title": text, "description": text, "inputSchema": schema, "annotations": {"title": text}}


TOOLS = [
    *(define(f"plain_{number}", text, "text") for number, text in enumerate(STRINGS)),
    *(define(text, text, text) for text in STRINGS if text.strip()),
]


def call(name: str) -> dict[str, Any]:
    """Return the result of a tool: its string, as text, as an error, as structured content, or all strings at once."""
    if name == "plain_0":
        return {"content": [{"type": "text", "text": "\n".join(STRINGS * 20)}]}
    text = STRINGS[int(name.removeprefix("plain_"))] if name.startswith("plain_") else name
    link = {"type": "resource_link", "uri": "notes://one", "name": text, "title": text, "description": text}
    content = [{"type": "text", "text": text}, link]
    return {"content": content, "structuredContent": {text: text, "list": [text]}, "isError": len(text) % 3 == 0}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request."""
    match request["method"]:
        case "initialize":
            info = {"name": STRINGS[40], "title": STRINGS[41], "version": STRINGS[42]}
            words = "\n".join(STRINGS)
            facts: dict[str, Any] = {"capabilities": {"tools": {}}, "serverInfo": info, "instructions": words}
            return {"result": {"protocolVersion": "2025-11-25", **facts}}
        case "tools/list":
            return {"result": {"tools": TOOLS}}
        case "tools/call":
            return {"result": call(request["params"]["name"])}
        case _:
            return {"error": {"code": -32601, "message": STRINGS[43]}}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message)}) + "\n")
        sys.stdout.flush()
