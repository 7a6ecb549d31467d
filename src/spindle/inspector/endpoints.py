"""Declarations of the API: path, role, models and handler of each endpoint."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from spindle.inspector.workbench import Workbench
from spindle.json_types import JsonObject
from spindle.text import to_encodable

Role: TypeAlias = Literal["viewer", "operator"]
Method: TypeAlias = Literal["GET", "POST"]

OWNER: Final = "default"
"""The user whose logins at upstream servers the owner of the server uses: that of `spindle login` on this machine."""
PREFIX: Final = "/api/v1"
"""Before the path of every endpoint; the number changes with the first incompatible answer."""


class ApiModel(BaseModel):
    """A value of the API; unknown fields of a request are rejected."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)


class NoInput(ApiModel):
    """No parameters, or no body."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageUser:
    """A person, or a program, that is logged in."""

    session: str
    """Identifies the login."""
    role: Role
    by: str
    """How the journal names who answers approvals and makes calls."""
    profile: str | None = None
    """The profile whose tools are seen and run; `None` for that of the server."""
    is_command: bool = False
    """Whether it is the command of the owner of the state key."""
    user: str = OWNER
    """Whose logins at upstream servers its calls use; that of `spindle login` for the owner of the server."""
    client: str | None = None
    """The token of the login, by the beginning of its hash; `None` for the owner."""
    expires_at: float | None = None
    """When the token of the login ends, if it does."""

    def describe_caller(self) -> JsonObject:
        """Return how the calls of this user name their caller: by its logins, and by its profile for the policies."""
        profile: JsonObject = {} if self.profile is None else {"profile": self.profile}
        return {"user": self.user, "page": to_encodable(self.by), **profile}


Params = TypeVar("Params", bound=BaseModel)
Body = TypeVar("Body", bound=BaseModel)


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiRequest(Generic[Params, Body]):
    """A checked request: its user has the role, its parameters and body have passed their models."""

    bench: Workbench
    user: PageUser
    params: Params
    """The parameters of the path and of the query string."""
    body: Body
    http: Request
    """The request itself, for answers that are streamed until its client leaves."""
    grant: Callable[[str], str] = str
    """Returns an address with a query as one that the browser of this login may open for a minute, as a download."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint(Generic[Params, Body]):
    """One operation of the API."""

    path: str
    """Without the prefix, such as `/tools/{name}`."""
    summary: str
    handler: Callable[[ApiRequest[Params, Body]], Awaitable[BaseModel | Response]]
    params: type[Params]
    body: type[Body]
    answer: type[BaseModel] | None = None
    """`None` if the answer is not JSON."""
    method: Method = "GET"
    role: Role = "viewer"


def read(
    path: str,
    handler: Callable[[ApiRequest[Params, NoInput]], Awaitable[BaseModel | Response]],
    *,
    summary: str,
    params: type[Params],
    answer: type[BaseModel] | None,
) -> Endpoint[Params, NoInput]:
    """Declare an endpoint that changes nothing."""
    return Endpoint(path=path, summary=summary, handler=handler, params=params, body=NoInput, answer=answer)


def change(
    path: str,
    handler: Callable[[ApiRequest[Params, Body]], Awaitable[BaseModel | Response]],
    *,
    summary: str,
    params: type[Params],
    body: type[Body],
    answer: type[BaseModel] | None,
    role: Role = "operator",
) -> Endpoint[Params, Body]:
    """Declare an endpoint that changes or runs something."""
    return Endpoint(
        path=path, summary=summary, handler=handler, params=params, body=body, answer=answer, method="POST", role=role
    )
