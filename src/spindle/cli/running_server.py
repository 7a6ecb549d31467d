"""The API of the `spindle serve` that runs with this state, as commands use it: on this machine, and no other way.

The server proves first that it has the state key: the port may belong to another program since the server has crashed.
Its proof is bound to the address of the connection, so that such a program cannot relay the question to another server.
"""

import http.client
import json
import secrets
import ssl
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from spindle.cli.config.loader import Config
from spindle.cli.main import FAILED, NOT_FOUND, REFUSED, USAGE
from spindle.cli.prompts import get_user
from spindle.cli.runtime_stores import read_state_key
from spindle.cli.server_file import ServerRecord, read_record
from spindle.errors import CommandError
from spindle.execution.state_key import StateKey
from spindle.inspector.command_login import COMMAND_HEADER, is_proof, sign_command
from spindle.json_types import JsonObject, is_object
from spindle.mcp.login_settings import is_loopback_name
from spindle.text import to_printable

PREFIX: Final = "/api/v1"
_FIND_SECONDS: Final = 5.0
_READ_SECONDS: Final = 60.0
RUN_SECONDS: Final = 86_400.0
"""How long a command waits for a call that it has approved."""
_MAX_BYTES: Final = 64 << 20
_OK: Final = 200
_NO_HEADERS: Final[Mapping[str, str]] = {}
_EXIT_CODES: Final = {400: USAGE, 403: REFUSED, 404: NOT_FOUND, 409: REFUSED}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningServer:
    """A server that runs with this state."""

    record: ServerRecord
    key: StateKey
    by: str
    """Who uses the command."""

    def get(self, path: str, **query: object) -> JsonObject:
        """Read something.

        Raises:
            CommandError: The server refuses it, or does not answer.
        """
        words = urlencode({name: str(value) for name, value in query.items() if value is not None})
        return self._request("GET", f"{path}?{words}" if words else path, None, _READ_SECONDS)

    def post(self, path: str, body: JsonObject, *, timeout_seconds: float = _READ_SECONDS) -> JsonObject:
        """Change or run something.

        Raises:
            CommandError: The server refuses it, or does not answer.
        """
        return self._request("POST", path, body, timeout_seconds)

    def _request(self, method: str, path: str, body: JsonObject | None, timeout_seconds: float) -> JsonObject:
        headers = {COMMAND_HEADER: sign_command(self.key, self.by)}
        try:
            with closing(_connect(self.record, timeout_seconds)) as connection:
                status, answer = _exchange(connection, method, f"{PREFIX}{path}", headers=headers, body=body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise CommandError(
                f"the server at {self.record.address} did not answer ({type(error).__name__})",
                exit_code=FAILED,
                hint="`spindle approvals show ID` says what became of a call; --local answers without the server",
            ) from error
        if status == _OK:
            return answer
        error = answer.get("error")
        said = error.get("message") if is_object(error) else None
        text = to_printable(said, 1_000) if isinstance(said, str) else f"it answered {status}"
        raise CommandError(f"the server refused: {text}", exit_code=_EXIT_CODES.get(status, FAILED))


def find_server(config: Config, by: str | None = None) -> RunningServer | None:
    """Return the server that runs with this state and serves the API; `None` if there is none."""
    record = read_record(config)
    if record is None or not record.page or not is_loopback_name(urlsplit(record.address).hostname or ""):
        return None
    key, nonce = StateKey(read_state_key(config)), secrets.token_urlsafe(18)
    try:
        with closing(_connect(record, _FIND_SECONDS)) as connection:
            host, port = connection.sock.getpeername()[:2]
            status, answer = _exchange(connection, "GET", f"{PREFIX}/proof?nonce={nonce}")
    except (OSError, http.client.HTTPException, ValueError):
        return None
    if status != _OK or not is_proof(key, nonce, answer.get("proof"), host=str(host), port=int(port)):
        return None
    return RunningServer(record=record, key=key, by=by or get_user())


def quote_part(text: str) -> str:
    """Return a text as one part of a path."""
    return quote(text, safe="")


def _exchange(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] = _NO_HEADERS,
    body: JsonObject | None = None,
) -> tuple[int, JsonObject]:
    """Send a request and return the status and the JSON."""
    content = None if body is None else json.dumps(body).encode()
    more = {} if body is None else {"Content-Type": "application/json"}
    connection.request(method, path, content, {**headers, **more, "Accept": "application/json"})
    response = connection.getresponse()
    data = response.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError("the answer is too large")
    answer: object = json.loads(data)
    return response.status, answer if is_object(answer) else {}


def _connect(record: ServerRecord, timeout_seconds: float) -> http.client.HTTPConnection:
    """Connect to the server; the environment's proxies are not used."""
    address = urlsplit(record.address)
    host, port = address.hostname or "", address.port or 0
    if address.scheme != "https":
        connection = http.client.HTTPConnection(host, port, timeout=_FIND_SECONDS)
        connection.connect()
    else:
        # The certificate has the name of the server, not this address: it must be the very one that is configured.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=_FIND_SECONDS, context=context)
        connection.connect()
        try:
            _check_certificate(connection, record)
        except (OSError, ValueError):
            connection.close()
            raise
    if connection.sock is not None:
        connection.sock.settimeout(timeout_seconds)
    return connection


def _check_certificate(connection: http.client.HTTPSConnection, record: ServerRecord) -> None:
    pem = Path(record.certificate or "").read_text("ascii")
    end = "-----END CERTIFICATE-----"
    begin = pem.index("-----BEGIN CERTIFICATE-----")
    configured = ssl.PEM_cert_to_DER_cert(pem[begin : pem.index(end, begin) + len(end)])
    sock = connection.sock
    if not isinstance(sock, ssl.SSLSocket) or sock.getpeercert(binary_form=True) != configured:
        raise ssl.SSLError("the certificate is not the configured one")
