"""`spindle page`, and `spindle approvals` where a server runs: the server answers, and proves that it is ours."""

import http.client
import json
import re
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from spindle.cli.config import load_config
from spindle.cli.main import FAILED, NOT_FOUND, OK, REFUSED, USAGE
from spindle.cli.running_server import find_server
from spindle.cli.runtime_stores import read_state_key
from spindle.cli.server_file import write_record
from spindle.execution import StateKey
from spindle.inspector import prove_server
from tests.cli.conftest import Command, Place, Ran
from tests.inspector.browsing import PageServer, serve_page

TOOLS = """
import os
from spindle import tool

@tool(requires_approval=True, secret_fields=["password"])
async def pay(amount: int, password: str = "") -> str:
    "Pay an amount."
    return f"paid {amount} in process {os.getpid()}"

tools = [pay]
"""
CONFIG = '[tools]\nmodules = ["paying:tools"]\npython_path = ["."]\n'


def test_without_a_server_it_says_how_to_start_one(spindle: Command) -> None:
    ran = spindle("page")

    assert ran.code == NOT_FOUND
    assert "spindle serve" in ran.err


def test_a_server_without_a_page_is_said(spindle: Command, place: Place) -> None:
    config = load_config(None, state=place.state)
    write_record(config, "http://127.0.0.1:1", page=False, certificate=None)

    ran = spindle("page")
    assert ran.code == FAILED
    assert "page = true" in ran.err


class _ForeignServer(BaseHTTPRequestHandler):
    """Another program on the port of a server that has crashed; it notes the headers that it gets."""

    seen: list[str] = []

    def do_GET(self) -> None:
        self.seen.extend(name.lower() for name in self.headers)
        self.answer({"proof": "AAAA"})

    def answer(self, content: dict[str, str | None]) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def foreign() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _ForeignServer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    _ForeignServer.seen.clear()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_program_that_lacks_the_state_key_gets_no_signature(spindle: Command, place: Place, foreign: str) -> None:
    write_record(load_config(None, state=place.state), foreign, page=True, certificate=None)

    assert spindle("page").code == FAILED
    assert spindle("approvals", "list").code == OK
    assert _ForeignServer.seen
    assert "x-spindle-command" not in _ForeignServer.seen


def test_a_tls_server_must_show_the_configured_certificate(place: Place, tmp_path: Path) -> None:
    config = load_config(None, state=place.state)
    key = StateKey(read_state_key(config))

    class Server(_ForeignServer):
        def do_GET(self) -> None:
            host, port = self.connection.getsockname()[:2]
            proof = prove_server(key, self.path.partition("nonce=")[2], host=host, port=port)
            self.answer({"proof": proof})

    configured, other = (write_certificate(tmp_path, name) for name in ("configured", "other"))
    server = HTTPServer(("127.0.0.1", 0), Server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(configured)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        found: list[bool] = []
        for certificate in (configured, other, tmp_path / "missing.pem"):
            address = f"https://127.0.0.1:{server.server_port}"
            write_record(config, address, page=True, certificate=str(certificate))
            found.append(find_server(config) is not None)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

    assert found == [True, False, False]


@pytest.mark.parametrize("is_relayed", [False, True])
def test_a_program_that_relays_the_proof_of_another_port_gets_no_signature(place: Place, is_relayed: bool) -> None:
    config = load_config(None, state=place.state)
    key = StateKey(read_state_key(config))

    class Genuine(_ForeignServer):
        def do_GET(self) -> None:
            host, port = self.connection.getsockname()[:2]
            proof = prove_server(key, self.path.partition("nonce=")[2], host=host, port=port)
            self.answer({"proof": proof})

    class Relay(_ForeignServer):
        def do_GET(self) -> None:
            connection = http.client.HTTPConnection("127.0.0.1", genuine.server_port, timeout=30)
            connection.request("GET", self.path, headers=dict(self.headers))
            self.answer(json.loads(connection.getresponse().read()))
            connection.close()

    genuine, relay = HTTPServer(("127.0.0.1", 0), Genuine), HTTPServer(("127.0.0.1", 0), Relay)
    threads = [threading.Thread(target=each.serve_forever, kwargs={"poll_interval": 0.01}) for each in (genuine, relay)]
    for thread in threads:
        thread.start()
    try:
        port = (relay if is_relayed else genuine).server_port
        write_record(config, f"http://127.0.0.1:{port}", page=True, certificate=None)
        found = find_server(config)
    finally:
        for server, thread in zip((genuine, relay), threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()

    assert (found is None) is is_relayed


def write_certificate(folder: Path, name: str) -> Path:
    """Write a key and a certificate that it has signed itself."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    built = x509.CertificateBuilder(named, named, key.public_key(), x509.random_serial_number())
    signed = built.not_valid_before(now).not_valid_after(now + timedelta(days=1)).sign(key, SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = folder / f"{name}.pem"
    path.write_bytes(signed.public_bytes(Encoding.PEM) + private)
    return path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "paying.py").write_text(TOOLS)
    with serve_page(folder, config=CONFIG) as server:
        yield server


@pytest.fixture
def command(served: PageServer, spindle: Command) -> Command:
    """The command, in this process, with the state of the running server."""

    def run(*words: str) -> Ran:
        chosen = ("--config", str(served.folder / "spindle.toml"), "--state", str(served.folder / "state"))
        return spindle(*words, *chosen)

    return run


def ask(command: Command, amount: int) -> str:
    ran = command("call", "pay", f"amount={amount}", "password=hunter2-hunter2", "--output", "json")
    return json.loads(ran.out)["ticket"].partition("-")[0]


@pytest.mark.slow
def test_the_link_is_of_the_running_server(command: Command, served: PageServer) -> None:
    ran = command("page")

    assert ran.code == OK
    assert re.fullmatch(rf"{re.escape(served.origin)}/page/login#\S{{20,}}", ran.out.strip())


@pytest.mark.slow
def test_approvals_are_answered_in_the_server_and_printed_as_without_it(command: Command, served: PageServer) -> None:
    first, second, third = (ask(command, amount) for amount in (1, 2, 3))
    lists = [command("approvals", "list", "--json", *local).out for local in ((), ("--local",))]
    shows = [command("approvals", "show", first[:9], *local).out for local in ((), ("--local",))]
    approved = command("approvals", "approve", first, "--by", "bob")
    again = command("approvals", "approve", first, "--json")
    edited = command("approvals", "edit", second, "amount=7")
    denied = command("approvals", "deny", third)
    late = command("approvals", "approve", third)

    assert lists[0] == lists[1]
    assert len(json.loads(lists[0])["approvals"]) == 3
    assert shows[0] == shows[1]
    assert f"paid 1 in process {served.process.pid}" in approved.out
    assert json.loads(again.out)["value"] == f"paid 1 in process {served.process.pid}"
    assert f"paid 7 in process {served.process.pid}" in edited.out
    assert [each.code for each in (approved, again, edited, denied, late)] == [OK, OK, OK, OK, REFUSED]
    assert "by bob" in command("approvals", "list", "--all").out
    assert command("approvals", "approve", "ap_nothing").code == NOT_FOUND
    assert command("approvals", "edit", ask(command, 4), "amount=many").code == USAGE
    assert "hunter2" not in approved.out + again.out + edited.out + lists[0] + shows[0]


@pytest.mark.slow
def test_the_file_of_the_server_is_removed_when_it_stops(tmp_path: Path) -> None:
    with serve_page(tmp_path):
        assert (tmp_path / "state" / "server.json").exists()

    assert not (tmp_path / "state" / "server.json").exists()
