"""Sessions of the older protocol that every replica can serve.

The store keeps what a client said when it opened its session; a replica that does not know the session yet continues
it from there. Requests to a client have ids that name the replica which asked, so that an answer, which may be posted
to any of them, reaches it.
"""

import json
import logging
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import anyio
from anyio.abc import TaskStatus
from mcp.server.connection import Connection
from mcp.server.runner import serve_connection
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import DEFAULT_SESSION_IDLE_TIMEOUT
from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE, RequestBodyLimitMiddleware
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, InitializeRequestParams
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override

from spindle.errors import JournalError
from spindle.journal.notices import MAX_NOTICE_BYTES
from spindle.journal.states import StateRecord
from spindle.json_types import JsonObject, is_object
from spindle.mcp.server.http_callers import SESSION_HEADER, build_session_key, get_token
from spindle.mcp.server.replicas import now_micros
from spindle.mcp.server.sessions import IDLE_SECONDS, Caller
from spindle.mcp.server.shared_records import SESSION, SharedRecords
from spindle.mcp.server.tool_server import ToolServer

_VERSION_HEADER: Final = "mcp-protocol-version"
_REFRESH_SECONDS: Final = IDLE_SECONDS / 6
_MAX_INITIALIZE_CHARS: Final = 1 << 16
_FAILED: Final = 400
_LOG: Final = logging.getLogger("spindle.mcp.server")


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """A dispatcher whose requests to the client have ids that begin with a prefix."""

    prefix = ""
    _count = 0

    @override
    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **related: Any
    ) -> dict[str, Any]:
        self._count += 1
        named: CallOptions = {**(opts or {}), "request_id": f"{self.prefix}{self._count}"}
        return await super().send_raw_request(method, params, named, **related)


class _FullError(Exception):
    """As many sessions are served here as may be."""


@dataclass(eq=False, kw_only=True, slots=True)
class _OpenSession:
    """A session that this replica serves."""

    key: str
    transport: StreamableHTTPServerTransport
    refreshed_at: float = field(default_factory=anyio.current_time)
    requests: int = 0
    """Number of its requests that are being served, open streams included."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        self.requests += 1
        try:
            await self.transport.handle_request(scope, receive, send)
        finally:
            self.requests -= 1


class SharedSessions:
    """ASGI middleware that serves the sessions of the older protocol; other requests are passed on."""

    def __init__(
        self, app: ASGIApp, server: ToolServer, shared: SharedRecords, *, path: str, max_sessions: int
    ) -> None:
        replica = shared.replica
        self._app, self._server, self._shared, self._replica = app, server, shared, replica
        self._path, self._max_sessions = path, max_sessions
        self._limited = RequestBodyLimitMiddleware(self._handle, DEFAULT_MAX_REQUEST_BODY_SIZE)
        self._open: OrderedDict[str, _OpenSession] = OrderedDict()
        """The sessions that are served here, the one used last at the end."""
        self._adopting = anyio.Lock()
        replica.clean(SESSION)
        replica.on("client_message", self._deliver)
        replica.on("session_ended", self._end_here)
        replica.on("log_level", self._set_log_level)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of a session, or pass it on."""
        is_ours = scope["type"] == "http" and scope["path"] == self._path
        if is_ours:
            version = Request(scope).headers.get(_VERSION_HEADER)
            is_ours = version is None or version in HANDSHAKE_PROTOCOL_VERSIONS
        await (self._limited if is_ours else self._app)(scope, receive, send)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        session_id = request.headers.get(SESSION_HEADER)
        body = await request.body() if request.method == "POST" else b""
        replayed = _replay(body, receive) if request.method == "POST" else receive
        try:
            if session_id is None:
                params = _find_opening(body)
                served: ASGIApp = self._app if params is None else await self._open_new(request, params)
            else:
                served = await self._serve(request, session_id, body)
        except _FullError:
            served = _refuse(503, "Too many open sessions", INTERNAL_ERROR)
        except JournalError as error:
            _LOG.warning("a session cannot be served: %s", error)
            served = _refuse(503, "The store of the sessions is not available.", INTERNAL_ERROR)
        await served(scope, replayed, send)

    async def _open_new(self, request: Request, params: JsonObject) -> ASGIApp:
        if len(self._open) >= self._max_sessions:
            raise _FullError
        data = json.dumps({"initialize": params})
        if len(data) > _MAX_INITIALIZE_CHARS:
            return _refuse(413, "The parameters of initialize are too large.", INVALID_REQUEST)
        session_id = uuid4().hex
        caller = _identify(request, session_id)
        now = now_micros()
        expires_at = now + IDLE_SECONDS * 1_000_000
        await self._replica.states.insert(
            StateRecord(SESSION, caller.key, "open", data, now, group=caller.profile, expires_at=expires_at)
        )
        session = await self._start(session_id, caller, None)

        async def serve_opening(scope: Scope, receive: Receive, send: Send) -> None:
            status = _FAILED

            async def watch(message: Message) -> None:
                nonlocal status
                status = message.get("status", status)
                await send(message)

            try:
                await session.handle(scope, receive, watch)
            finally:
                if status >= _FAILED:
                    with anyio.CancelScope(shield=True):
                        await self._close(session, is_ended=True)

        return serve_opening

    async def _serve(self, request: Request, session_id: str, body: bytes) -> ASGIApp:
        caller = _identify(request, session_id)
        session = self._open.get(caller.key) or await self._adopt(session_id, caller)
        if session is None:
            return _refuse(404, "Session not found", INVALID_REQUEST)
        self._open.move_to_end(session.key)
        await self._refresh(session)
        if body and await self._relay(session, body):
            return Response(status_code=202, headers={SESSION_HEADER: session_id})
        if request.method != "DELETE":
            return session.handle

        async def serve_last(scope: Scope, receive: Receive, send: Send) -> None:
            await session.handle(scope, receive, send)
            if session.transport.is_terminated:
                await self._close(session, is_ended=True)

        return serve_last

    async def _adopt(self, session_id: str, caller: Caller) -> _OpenSession | None:
        """Continue a session that another replica has opened; return `None` if this client has none."""
        async with self._adopting:
            known = self._open.get(caller.key)
            record = None if known is not None else await self._replica.states.get(SESSION, caller.key)
            if record is None or (record.expires_at or 0) < now_micros():
                return known
            if len(self._open) >= self._max_sessions:
                idle = next((each for each in self._open.values() if not each.requests), None)
                if idle is None:
                    raise _FullError
                await self._close(idle, is_ended=False)  # it is continued when it is used again
            data: JsonObject = json.loads(record.data)
            session = await self._start(session_id, caller, data["initialize"])
            if data.get("log_level") is not None:
                self._server.set_log_level(caller.key, data["log_level"])
            return session

    async def _start(self, session_id: str, caller: Caller, initialize: JsonObject | None) -> _OpenSession:
        tasks = self._server.tasks
        if tasks is None:
            raise JournalError("the server has stopped")
        return await tasks.start(self._run, session_id, caller, initialize)

    async def _run(
        self,
        session_id: str,
        caller: Caller,
        initialize: JsonObject | None,
        *,
        task_status: TaskStatus[_OpenSession] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        transport = StreamableHTTPServerTransport(session_id, idle_timeout=DEFAULT_SESSION_IDLE_TIMEOUT)
        session = _OpenSession(key=caller.key, transport=transport)
        async with transport.connect() as (reading, writing):
            dispatcher = _Dispatcher(reading, writing, inline_methods=frozenset({"initialize"}))
            dispatcher.prefix = f"{self._replica.id}."
            connection = Connection.for_loop(dispatcher, session_id=session_id)
            if initialize is not None:
                _restore(connection, initialize)
            self._open[caller.key] = session
            self._server.add_session(caller, connection)
            task_status.started(session)
            try:
                with transport.idle_scope or anyio.CancelScope():
                    state = self._server.lifespan_state
                    await serve_connection(self._server.sdk, dispatcher, connection=connection, lifespan_state=state)
            except Exception:  # noqa: BLE001  one session must not stop the others
                _LOG.exception("a session failed")
            finally:
                with anyio.CancelScope(shield=True):
                    await self._close(session, is_ended=False)

    async def _close(self, session: _OpenSession, *, is_ended: bool) -> None:
        """Stop serving a session here; if its client has ended it, everywhere."""
        if self._open.get(session.key) is session:
            del self._open[session.key]
        if not session.transport.is_terminated:
            await session.transport.terminate()
        if is_ended:
            self._server.forget(session.key)
            with suppress(JournalError):  # then it expires
                await self._replica.states.delete(SESSION, session.key)
            await self._shared.forget(session.key)
            self._replica.post("session_ended", {"session": session.key})

    async def _end_here(self, content: JsonObject) -> None:
        session = self._open.get(str(content.get("session")))
        self._server.forget(str(content.get("session")))
        if session is not None:
            await self._close(session, is_ended=False)

    async def _set_log_level(self, content: JsonObject) -> None:
        self._server.set_log_level(str(content.get("session")), content.get("level"))

    async def _refresh(self, session: _OpenSession) -> None:
        """Keep the session in the store while it is used."""
        now = anyio.current_time()
        if now - session.refreshed_at < _REFRESH_SECONDS:
            return
        session.refreshed_at = now
        record = await self._replica.states.get(SESSION, session.key)
        if record is not None:
            expires_at = now_micros() + IDLE_SECONDS * 1_000_000
            await self._replica.states.replace(record._replace(version=record.version + 1, expires_at=expires_at))

    async def _relay(self, session: _OpenSession, body: bytes) -> bool:
        """Send a message of the client to the replica it is for; return whether that is only another one."""
        try:
            message: object = json.loads(body)
        except (ValueError, RecursionError):
            return False
        if not is_object(message):
            return False
        content: JsonObject = {"session": session.key, "message": message}
        if message.get("method") == "notifications/cancelled":
            # The call may run anywhere.
            if len(json.dumps(content)) < MAX_NOTICE_BYTES - 200:
                self._replica.post("client_message", content)
            return False
        owner, dot, _ = str(message.get("id")).partition(".")
        is_answer = "method" not in message and ("result" in message or "error" in message)
        if not is_answer or not dot or owner == self._replica.id:
            return False
        if not await self._replica.is_gone(owner):
            await self._replica.send(owner, "client_message", content)
        return True

    async def _deliver(self, content: JsonObject) -> None:
        """Pass a message that was posted to another replica to the session here."""
        session = self._open.get(str(content.get("session")))
        if session is None or session.transport.mcp_session_id is None:
            return
        body = json.dumps(content["message"]).encode()
        headers = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            SESSION_HEADER: session.transport.mcp_session_id,
        }
        scope: Scope = {
            "type": "http",
            "method": "POST",
            "path": self._path,
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        await session.transport.handle_request(scope, _replay(body, anyio.sleep_forever), _ignore)


def _identify(request: Request, session_id: str) -> Caller:
    token = get_token(request)
    return Caller(key=build_session_key(session_id, token), profile=None if token is None else token.subject)


def _restore(connection: Connection, initialize: JsonObject) -> None:
    """Bring a connection into the state that it has after its client has opened it."""
    params = InitializeRequestParams.model_validate(initialize, by_name=False)
    connection.client_params = params
    version = str(params.protocol_version)
    connection.protocol_version = version if version in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
    connection.initialized.set()


def _find_opening(body: bytes) -> JsonObject | None:
    """Return the parameters of a request that opens a session; `None` for any other."""
    try:
        message: object = json.loads(body)
        params = message.get("params") if is_object(message) and message.get("method") == "initialize" else None
        if not is_object(params):
            return None
        InitializeRequestParams.model_validate(params, by_name=False)
    except (ValueError, RecursionError, ValidationError):
        return None  # the SDK says what is wrong
    return params


def _replay(body: bytes, rest: Any) -> Receive:
    is_read = False

    async def receive() -> Message:
        nonlocal is_read
        if is_read:
            return await rest()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _ignore(_message: Message) -> None:
    pass


def _refuse(status: int, text: str, code: int) -> Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}}
    return JSONResponse(body, status_code=status)
