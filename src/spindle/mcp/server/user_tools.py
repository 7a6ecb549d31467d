"""The tools of servers where each user logs in: what one user sees of them."""

from typing import Protocol

from spindle.tools.filters import ToolFilter, intersect_filters


class UserTools(Protocol):
    """The tools that differ between users."""

    async def connect_user(self, user: str | None) -> None:
        """Connect a user, so that his tools are registered."""
        ...

    def find_hidden_tools(self, user: str | None) -> frozenset[str]:
        """Return the registered tools that are those of other users."""
        ...


def hide_tools(filter: ToolFilter | None, hidden: frozenset[str]) -> ToolFilter | None:
    """Return the filter of what is listed; calls have the filter of the profile, so that they can name the login."""
    return intersect_filters(filter, ToolFilter(exclude_tools=hidden)) if hidden else filter
