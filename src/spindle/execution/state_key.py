"""The state key: it signs tickets, and seals values that only its owner may read. Older keys stay valid.

Signatures are made by itsdangerous (HMAC-SHA-256 with a key for each purpose), seals by cryptography (AES-256-GCM).
"""

import secrets
from collections.abc import Sequence
from functools import cache
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from itsdangerous import BadData, Signer
from itsdangerous.encoding import base64_decode, base64_encode

from spindle.errors import SecretError
from spindle.execution.ticket_settings import check_state_key

_NONCE_BYTES = 12
_ID_BYTES = 4


class StateKey:
    """One key, or several after a rotation: the first signs and seals, all are accepted.

    Raises:
        UsageError: A key is empty, or not text or bytes.
    """

    def __init__(self, keys: "str | bytes | Sequence[str | bytes]") -> None:
        check_state_key(keys)
        listed = [keys] if isinstance(keys, (str, bytes)) else keys
        self._keys = [key.encode() if isinstance(key, str) else key for key in listed]
        self._ciphers = {_identify(key): AESGCM(_derive(key)) for key in reversed(self._keys)}
        self.id = _identify(self._keys[0]).hex()
        """Identifies the key that signs, without revealing it."""

    def knows(self, id: str) -> bool:
        """Return whether the id of an accepted key begins so."""
        return any(each.hex().startswith(id) for each in self._ciphers)

    def sign(self, text: str, *, bound: str) -> str:
        """Return the text with a signature of the text and of what it is bound to."""
        return self._signer(bound).sign(text).decode()

    def verify(self, signed: str, *, bound: str) -> bool:
        """Return whether a signed text was made by one of the keys, for the same binding, and is written the same."""
        try:
            self._signer(bound).unsign(signed.encode())
            signature = signed.rpartition(".")[2]
            # Decoding ignores the last bits of a signature: another spelling of it is another text.
            return base64_encode(base64_decode(signature)).decode() == signature
        except (BadData, UnicodeError):
            return False

    def seal(self, data: bytes, *, bound: str) -> bytes:
        """Encrypt a value, which can be read only together with what it is bound to."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        own = _identify(self._keys[0])
        return own + nonce + self._ciphers[own].encrypt(nonce, data, bound.encode())

    def unseal(self, sealed: bytes, *, bound: str) -> bytes:
        """Decrypt a value.

        Raises:
            SecretError: None of the keys sealed it, or it was changed.
        """
        cipher = self._ciphers.get(sealed[:_ID_BYTES])
        nonce, data = sealed[_ID_BYTES : _ID_BYTES + _NONCE_BYTES], sealed[_ID_BYTES + _NONCE_BYTES :]
        try:
            if cipher is not None:
                return cipher.decrypt(nonce, data, bound.encode())
        except (InvalidTag, ValueError):
            pass
        raise SecretError("A sealed value cannot be read: it was changed, or sealed with another state key.")

    def derive(self, purpose: str) -> list[bytes]:
        """Return a key of 32 bytes for another use of each key, in the same order."""
        return [_derive(key, purpose) for key in self._keys]

    def _signer(self, bound: str) -> Signer:
        return Signer(self._keys[::-1], salt=bound, digest_method=sha256)  # it signs with the last of them


def _identify(key: bytes) -> bytes:
    return sha256(b"spindle state key id\0" + key).digest()[:_ID_BYTES]


def _derive(key: bytes, purpose: str = "seal") -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=f"spindle {purpose} 1".encode()).derive(key)


@cache
def get_process_key() -> StateKey:
    """Return the key of this process, which is used where none is configured; other processes do not know it."""
    return StateKey(secrets.token_bytes(32))
