"""What goes wrong on the wire, told in our words."""

import ssl
from collections.abc import Generator
from contextlib import contextmanager

import httpcore2

from spindle.errors import NetworkError


@contextmanager
def told(host: str) -> Generator[None]:
    """Turn a failure of the HTTP library into ours.

    Raises:
        NetworkError: `host` did not answer as it should.
    """
    try:
        yield
    except (TimeoutError, httpcore2.TimeoutException) as error:
        raise NetworkError(
            f"{host} took too long; try again later, or raise timeout_seconds", host=host, reason="timeout"
        ) from error
    except httpcore2.ConnectError as error:
        if _is_tls(error):
            raise NetworkError(
                f"{host} has no valid certificate for its name: {_first_line(error)}", host=host, reason="tls"
            ) from error
        raise NetworkError(f"{host} does not take connections; is it up?", host=host, reason="connect") from error
    except (httpcore2.NetworkError, OSError) as error:
        raise NetworkError(f"the connection to {host} broke off; try again", host=host, reason="connect") from error
    except (httpcore2.ProtocolError, httpcore2.UnsupportedProtocol) as error:
        raise NetworkError(
            f"{host} does not speak proper HTTP: {_first_line(error)}", host=host, reason="protocol"
        ) from error


def _is_tls(error: BaseException) -> bool:
    cause = error.__cause__ or error.__context__
    return isinstance(error, ssl.SSLError) or (cause is not None and _is_tls(cause))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
