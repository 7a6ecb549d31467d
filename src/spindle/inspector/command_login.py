"""How a command on this machine and the running server recognise each other: both have the state key.

It needs no package of the extra `server`, since the command is a client.
"""

import base64
import ipaddress
import json
import time
from collections.abc import Mapping
from typing import Final

from spindle.execution.state_key import StateKey
from spindle.json_types import JsonObject, is_object

COMMAND_HEADER: Final = "x-spindle-command"
COMMAND_SECONDS: Final = 60.0
COMMAND: Final = "page command"
"""What the signature of a command is bound to."""
_PROOF: Final = "page server"
MAX_NAME_CHARS: Final = 100
_MAX_NONCE_CHARS: Final = 100


def sign_command(key: StateKey, by: str) -> str:
    """Return the header by which the command of the owner of the state key is an operator, for a minute."""
    return key.sign(pack({"by": by[:MAX_NAME_CHARS], "until": time.time() + COMMAND_SECONDS}), bound=COMMAND)


def prove_server(key: StateKey, nonce: str, *, host: str, port: int) -> str | None:
    """Return the proof that the server at an address has the state key; `None` if the nonce is too long.

    The address is that of the server's own end of the connection, not one that the request names.
    """
    return key.sign(nonce, bound=_bind(host, port)).rpartition(".")[2] if len(nonce) <= _MAX_NONCE_CHARS else None


def is_proof(key: StateKey, nonce: str, proof: object, *, host: str, port: int) -> bool:
    """Return whether the server at an address has the state key, so that it may see the header of a command.

    The proof of a server at another address does not count: a program could have relayed the question to it.
    """
    return isinstance(proof, str) and "." not in proof and key.verify(f"{nonce}.{proof}", bound=_bind(host, port))


def _bind(host: str, port: int) -> str:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        host = str(mapped or address)  # a socket for both versions sees an IPv4 client so
    except ValueError:
        pass
    return f"{_PROOF} {host} {port}"


def pack(facts: Mapping[str, object]) -> str:
    """Return facts as text without dots, to be signed."""
    return base64.urlsafe_b64encode(json.dumps(facts).encode()).decode().rstrip("=")


def unpack(signed: str) -> JsonObject | None:
    """Return the facts of a signed text; `None` if it has another form."""
    packed = signed.rpartition(".")[0]
    try:
        facts: object = json.loads(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
    except (ValueError, RecursionError):  # signed by another version
        return None
    return facts if is_object(facts) else None
