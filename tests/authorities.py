"""Quick TLS set-up for tests that make many HTTP clients and make no TLS connection."""

from collections.abc import Generator

import certifi
import pytest

_END = "-----END CERTIFICATE-----\n"


@pytest.fixture(scope="module", autouse=True)
def trust_one_authority(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Trust one authority, not all of them, which take 20 ms to load for each client."""
    path = tmp_path_factory.mktemp("authorities") / "one.pem"
    path.write_text(certifi.contents().partition(_END)[0] + _END, encoding="ascii")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(path))
        yield
