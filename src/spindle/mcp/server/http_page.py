"""Another application beside the MCP endpoint: the page of the server, and how a browser finds it."""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp


@dataclass(frozen=True, kw_only=True, slots=True)
class PageRoute:
    """Another application beside the MCP endpoint, such as the page of the server."""

    app: ASGIApp
    owns: Callable[[str], bool]
    """Returns whether a path belongs to it."""
    entrance: str = "/"
    """Where a browser that opens the MCP endpoint is sent."""

    def redirect_browser(self, request: Request) -> Response | None:
        """Send a person who opens the MCP endpoint in a browser to the page; no MCP client asks for HTML."""
        accepted = request.headers.get("accept", "")
        is_browser = request.method == "GET" and "text/html" in accepted and "text/event-stream" not in accepted
        return RedirectResponse(self.entrance, status_code=303) if is_browser else None


def build_refusal(text: str, status: int) -> Response:
    """Build a refusal in plain text, which a browser must not take for HTML: it may quote the request."""
    headers = {
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        "Cache-Control": "no-store",
    }
    return Response(text, status_code=status, media_type="text/plain", headers=headers)
