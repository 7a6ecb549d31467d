"""The inspector: a page of `spindle serve` that shows tools, calls, turns, artifacts and approvals, and its API.

Open `app.py` first. A view is a module in `api/`, which answers, and one in `static/views/`, which draws.
"""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.inspector.api import ENDPOINTS as ENDPOINTS
    from spindle.inspector.app import InspectorApp as InspectorApp
    from spindle.inspector.app import is_page_path as is_page_path
    from spindle.inspector.command_login import prove_server as prove_server
    from spindle.inspector.command_login import sign_command as sign_command
    from spindle.inspector.endpoints import Endpoint as Endpoint
    from spindle.inspector.logins import PageLogins as PageLogins
    from spindle.inspector.openapi import build_document as build_document
    from spindle.inspector.workbench import Workbench as Workbench
else:
    __getattr__, __dir__ = open_door(__name__)
