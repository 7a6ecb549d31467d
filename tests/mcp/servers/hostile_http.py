"""An HTTP server that does what no MCP server should: one misdeed for each tool; prints its port."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOLS = ("ok", "flood", "reset", "redirect", "denied", "gzip", "html", "accepted", "empty", "half", "forget", "events")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    knows_session = True

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method = message.get("method")
        if method == "initialize":
            Handler.knows_session = True
            info = {"name": "hostile", "version": "1"}
            capabilities: dict[str, Any] = {"tools": {}}
            result: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
            self.answer(message, result, {"mcp-session-id": "s1"})
        elif "id" not in message:
            self.reply(202, b"")
        elif not Handler.knows_session:
            self.reply(404, b"who?")
        elif method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            self.answer(message, {"tools": tools})
        elif method == "tools/call":
            getattr(self, f"tool_{message['params']['name']}")(message)
        elif method == "ping":
            self.answer(message, {})
        else:
            self.reply(400, b"what?")

    def do_GET(self) -> None:
        self.reply(405, b"")

    do_DELETE = do_GET

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer(self, message: dict[str, Any], result: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self.reply(200, body, {"content-type": "application/json", **(headers or {})})

    def say(self, message: dict[str, Any], text: str) -> None:
        self.answer(message, {"content": [{"type": "text", "text": text}]})

    def tool_ok(self, message: dict[str, Any]) -> None:
        self.say(message, "ok")

    def tool_flood(self, message: dict[str, Any]) -> None:
        self.say(message, "x" * 50_000_000)

    def tool_reset(self, message: dict[str, Any]) -> None:
        self.close_connection = True

    def tool_redirect(self, message: dict[str, Any]) -> None:
        self.reply(307, b"", {"location": "/other"})

    def tool_denied(self, message: dict[str, Any]) -> None:
        self.reply(401, b"")

    def tool_gzip(self, message: dict[str, Any]) -> None:
        self.reply(200, b"\x1f\x8b", {"content-type": "application/json", "content-encoding": "gzip"})

    def tool_html(self, message: dict[str, Any]) -> None:
        self.reply(200, b"<html>", {"content-type": "text/html"})

    def tool_accepted(self, message: dict[str, Any]) -> None:
        self.reply(202, b"")

    def tool_empty(self, message: dict[str, Any]) -> None:
        self.reply(200, b"", {"content-type": "application/json"})

    def tool_half(self, message: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "1000")
        self.end_headers()
        self.wfile.write(b'{"jsonrpc"')
        self.close_connection = True

    def tool_forget(self, message: dict[str, Any]) -> None:
        Handler.knows_session = False
        self.say(message, "forgotten")

    def tool_events(self, message: dict[str, Any]) -> None:
        self.reply(200, b"data: " + b"x" * 20_000_000 + b"\n\n", {"content-type": "text/event-stream"})

    def log_message(self, format: str, *args: Any) -> None:
        pass


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        sys.stdout.write(f"{server.server_address[1]}\n")
        sys.stdout.flush()
        server.serve_forever()
