"""The ASGI application of the page: the page itself, its static files, logins, and the API."""

import json
import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import anyio
from jinja2 import Environment, PackageLoader, select_autoescape
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from spindle.errors import (
    InvalidRequestError,
    RequestForbiddenError,
    SpindleError,
    UnknownItemError,
    UsageError,
)
from spindle.inspector.api import ENDPOINTS, FEEDS
from spindle.inspector.command_login import prove_server
from spindle.inspector.endpoints import PREFIX, ApiRequest, Endpoint, NoInput, PageUser
from spindle.inspector.live import LiveUpdates
from spindle.inspector.logins import PageLogins, issue_code
from spindle.inspector.openapi import build_document
from spindle.inspector.request_bodies import read_json
from spindle.inspector.responses import build_file_response, serialize
from spindle.inspector.workbench import Workbench
from spindle.json_types import JsonObject, is_object
from spindle.text import to_printable

PAGE: Final = "/page"
_MAX_LOGIN_BYTES: Final = 16 << 10
_METHODS: Final = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_FAILED: Final = 500
_MAX_FIELDS: Final = 100
"""Of a body or a query; every model has fewer."""
_LOG: Final = logging.getLogger("spindle.inspector")
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}


def is_page_path(path: str) -> bool:
    """Return whether a path belongs to the page or its API."""
    return path in {"/", PAGE} or path.startswith((f"{PAGE}/", "/api/"))


class InspectorApp:
    """Serves the page and its API for one running server."""

    def __init__(self, bench: Workbench, logins: PageLogins) -> None:
        self._bench, self._logins = bench, logins
        self._live = LiveUpdates(bench, FEEDS)
        self._templates = Environment(
            loader=PackageLoader("spindle.inspector"), autoescape=select_autoescape(default=True)
        )
        routes = [
            Route("/", self._go_to_page),
            Route(f"{PREFIX}/login", self._log_in, methods=["POST"]),
            Route(f"{PREFIX}/logout", self._log_out, methods=["POST"]),
            Route(f"{PREFIX}/link", self._make_link, methods=["POST"]),
            Route(f"{PREFIX}/proof", self._prove),
            Route(f"{PREFIX}/events", self._stream_events),
            Route(f"{PREFIX}/openapi.json", self._describe_api),
            *(Route(f"{PREFIX}{each.path}", partial(self._answer, each), methods=[each.method]) for each in ENDPOINTS),
            Route("/api/{rest:path}", self._refuse_path, methods=_METHODS),
            Route(f"{PAGE}/static/{{path:path}}", self._send_file),
            Route(f"{PAGE}/login", self._show_login),
            Route(PAGE, self._go_to_page),
            Route(f"{PAGE}/{{rest:path}}", self._show_page),
        ]
        self._app = Starlette(routes=routes)

    def close(self) -> None:
        """End the live updates and the calls of the page, so that the server can stop."""
        self._live.close()
        self._bench.trials.cancel_all()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with the headers that keep a browser from loading or running anything else."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message.get("headers", ())}
                more = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *(each for each in more if each[0] not in known)]
            await send(message)

        await self._app(scope, receive, send_with_headers)

    async def _go_to_page(self, _request: Request) -> Response:
        return RedirectResponse(f"{PAGE}/tools", status_code=303)

    async def _show_login(self, _request: Request) -> Response:
        return self._render("login.html", has_tokens=bool(self._logins.roles))

    async def _show_page(self, request: Request) -> Response:
        user = await self._logins.find_by_cookie(request)
        if user is None:
            return RedirectResponse(f"{PAGE}/login", status_code=303)
        # The cookie is enough to read this: nothing but the role and names belongs here.
        session: JsonObject = {
            "role": user.role,
            "by": user.by,
            "profile": user.profile,
            "name": self._bench.name,
        }
        return self._render("page.html", session=json.dumps(session))

    def _render(self, template: str, **values: object) -> Response:
        text = self._templates.get_template(template).render(name=self._bench.name, page=PAGE, **values)
        return Response(text, media_type="text/html")

    async def _send_file(self, request: Request) -> Response:
        return build_file_response(str(request.path_params["path"]), request.headers.get("if-none-match"))

    async def _describe_api(self, request: Request) -> Response:
        try:
            await self._logins.identify(request)
        except SpindleError as error:
            return _refuse(error)
        return JSONResponse(build_document(ENDPOINTS, version=self._bench.version, cookie=self._logins.cookie))

    async def _refuse_path(self, request: Request) -> Response:
        path = to_printable(request.scope["path"], 200)
        return _refuse(UnknownItemError(f"there is nothing at {path} for {request.method}; see {PREFIX}/openapi.json"))

    async def _log_in(self, request: Request) -> Response:
        try:
            self._logins.check_origin(request)
            body: object = await read_json(request, max_bytes=_MAX_LOGIN_BYTES)
            code = body.get("code") if is_object(body) else None
            user = self._logins.find_by_token(request)
            if user is None:
                if not isinstance(code, str):
                    raise RequestForbiddenError("this token is unknown, or `page` of its profile is not set")
                user = await self._logins.redeem(code, request.client.host if request.client else "")
        except SpindleError as error:
            return _refuse(error)
        response = Response(media_type="application/json")
        token = self._logins.log_in(response, user)
        response.body = json.dumps({"role": user.role, "token": token}).encode()
        response.headers["content-length"] = str(len(response.body))
        return response

    async def _log_out(self, request: Request) -> Response:
        try:
            user = await self._logins.identify(request)
            response = JSONResponse({})
            await self._logins.log_out(response, user)
        except SpindleError as error:
            return _refuse(error)
        return response

    async def _make_link(self, request: Request) -> Response:
        """Return the code of a new one-time link, to the command of the owner of the state key."""
        try:
            user = await self._logins.identify(request)
            if not user.is_command:
                raise RequestForbiddenError("only the command `spindle page` gets a new link")
            if self._logins.states is None:
                raise InvalidRequestError("the journal of this server has no place for links; set [journal] path")
            code = await issue_code(self._logins.states, role="operator", by=user.by)
        except SpindleError as error:
            return _refuse(error)
        return JSONResponse({"code": code, "path": f"{PAGE}/login"})

    async def _prove(self, request: Request) -> Response:
        """Prove to a command that this server has the state key, before it shows its own signature."""
        match request.scope.get("server"):
            case (str(host), int(port)):
                proof = prove_server(self._logins.key, request.query_params.get("nonce", ""), host=host, port=port)
            case _:
                return _refuse(InvalidRequestError("this connection has no address to prove; use HTTP over TCP"))
        if proof is None:
            return _refuse(InvalidRequestError("the nonce is too long", field="nonce"))
        return JSONResponse({"proof": proof})

    async def _stream_events(self, request: Request) -> Response:
        try:
            user = await self._logins.identify(request)
        except SpindleError as error:
            return _refuse(error)

        async def is_logged_in() -> bool:
            try:
                await self._logins.identify(request)
            except SpindleError:
                return user.is_command
            return True

        try:
            return self._live.open(
                set(request.query_params.get("topics", "").split(",")), user, is_logged_in=is_logged_in
            )
        except SpindleError as error:
            return _refuse(error)

    async def _answer(self, endpoint: "Endpoint[Any, Any]", request: Request) -> Response:
        started = time.perf_counter()
        try:
            user = await self._logins.identify(request)
            _check_role(endpoint, user)
            params = _parse(endpoint.params, {**request.query_params, **request.path_params})
            body = NoInput() if endpoint.body is NoInput else _parse(endpoint.body, await read_json(request))
            grant = partial(self._logins.grant, user)
            checked = ApiRequest(bench=self._bench, user=user, params=params, body=body, http=request, grant=grant)
            answer = await endpoint.handler(checked)
            content = None if isinstance(answer, Response) else await serialize(answer)
        except SpindleError as error:
            return _refuse(error)
        except (ClientDisconnect, anyio.get_cancelled_exc_class()):
            raise
        except Exception as error:  # noqa: BLE001  a fault of one view must not close the connection without a word
            _LOG.exception("%s %s failed", endpoint.method, endpoint.path)
            return _refuse(SpindleError(f"the server failed ({type(error).__name__}); its log says more"))
        if isinstance(answer, Response):
            return answer
        timing = {"Server-Timing": f"app;dur={(time.perf_counter() - started) * 1000:.1f}"}
        return Response(content, media_type="application/json", headers=timing)


def _check_role(endpoint: "Endpoint[Any, Any]", user: PageUser) -> None:
    if endpoint.role == "operator" and user.role != "operator":
        raise RequestForbiddenError("this needs the role operator, and this login is a viewer")


def _parse(model: type[BaseModel], value: object) -> BaseModel:
    if is_object(value) and len(value) > _MAX_FIELDS:  # each unknown one would be a problem of its own
        raise InvalidRequestError(f"expected at most {_MAX_FIELDS} fields")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise InvalidRequestError(f"{to_printable(field, 100) or 'the body'}: {first['msg']}", field=field) from None


def _refuse(error: SpindleError) -> Response:
    facts: Mapping[str, str | None] = {"code": error.code, "message": str(error), "field": error.field}
    body = {"error": {name: value for name, value in facts.items() if value is not None}}
    # The status of errors in the use of the library, if they have none of their own, is that of an invalid request.
    status = 400 if isinstance(error, UsageError) and error.status == _FAILED else error.status
    # ASCII: a message may quote half of a character.
    return Response(json.dumps(body), status_code=status, media_type="application/json")
