"""The endpoints of the API and the live feeds, one module for each view."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spindle.inspector.api import approvals, artifacts, batches, calls, flow, health, tools, trials, turns
from spindle.inspector.endpoints import Endpoint
from spindle.inspector.live import Feed

_MODULES: Final = (tools, trials, calls, batches, turns, artifacts, approvals, flow, health)

ENDPOINTS: Final[Sequence[Endpoint[Any, Any]]] = tuple(each for module in _MODULES for each in module.ENDPOINTS)
FEEDS: Final[Mapping[str, Feed]] = {name: feed for module in _MODULES for name, feed in module.FEEDS.items()}
