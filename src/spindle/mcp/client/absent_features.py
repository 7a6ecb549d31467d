"""`AbsentFeatures`: a server's prompts and resources for a user who cannot use it: none, and each read says why."""

from typing import TYPE_CHECKING, NoReturn

from typing_extensions import override

from spindle.errors import UpstreamError
from spindle.mcp.client.connection import UpstreamConnection
from spindle.mcp.client.feature_lock import FeatureLock
from spindle.mcp.client.features import ListKind, UpstreamFeatures
from spindle.mcp.client.lifecycle import ClientServices
from spindle.tools.context import ToolContext

if TYPE_CHECKING:
    from mcp_types import CompleteRequestParams


class AbsentFeatures(UpstreamFeatures):
    """A server with OAuth, for a user without a login: nothing is listed and nothing is sent."""

    def __init__(
        self, connection: UpstreamConnection, services: ClientServices, lock: FeatureLock, problem: UpstreamError
    ) -> None:
        super().__init__(connection, services, _get_no_headers, lambda _features, _kind: None, lock)
        self.problem = self._problem = problem

    @override
    async def refresh(self, kind: ListKind) -> None:
        """List nothing."""

    @override
    def may_read(self, uri: str) -> bool:
        """Return True: reading it fails with the problem."""
        return True

    @override
    async def read(self, uri: str, *, ctx: ToolContext, given: object = None) -> NoReturn:
        """Raise the problem."""
        raise self._problem

    @override
    async def get_prompt(self, name: str, arguments: object, *, ctx: ToolContext, given: object = None) -> NoReturn:
        """Raise the problem."""
        raise self._problem

    @override
    async def complete(self, params: "CompleteRequestParams", *, ctx: ToolContext) -> NoReturn:
        """Raise the problem."""
        raise self._problem


async def _get_no_headers(_ctx: ToolContext) -> dict[str, str]:
    return {}
