"""What the exceptions of boto3 mean, and how to hang up on its streams."""

from typing import Any, Final, cast

from spindle.bridges.provider import Failure
from spindle.bridges.reading import field_of, text_of

_STATUSES: Final[dict[str, int | None]] = {
    "internalServerException": 500,
    "modelStreamErrorException": None,  # the model broke off; the API says to ask again
    "serviceUnavailableException": 503,
    "throttlingException": 429,
    "validationException": 400,
}
"""The status an error has when it comes in the middle of a stream, whose own status was 200."""


def failure_of(error: Exception) -> Failure | None:
    """Say what an exception of boto3 means; `None` for one that is not the provider's."""
    from botocore.eventstream import ParserError  # noqa: PLC0415  an extra
    from botocore.exceptions import (  # noqa: PLC0415
        ClientError,
        ConnectionError,  # noqa: A004
        EventStreamError,
        HTTPClientError,
    )
    from botocore.parsers import ResponseParserError  # noqa: PLC0415
    from urllib3.exceptions import HTTPError  # noqa: PLC0415  it comes with boto3

    says = f"{type(error).__name__}: {error}"
    if isinstance(error, EventStreamError):
        code = text_of(field_of(cast("Any", error).response, "Error"), "Code")
        return Failure(says, _STATUSES.get(code, 500))
    if isinstance(error, ClientError):
        about = field_of(cast("Any", error).response, "ResponseMetadata")
        return Failure(says, field_of(about, "HTTPStatusCode"), _retry_after(field_of(about, "HTTPHeaders")))
    unreadable = (ParserError, ResponseParserError, UnicodeDecodeError)
    if isinstance(error, (HTTPClientError, ConnectionError, HTTPError, *unreadable)):
        return Failure(says)
    return None


def hang_up(stream: Any) -> None:
    """Wake up the thread that waits for the next event: closing a socket does not, shutting it down does."""
    stream._raw_stream.shutdown()  # boto3 offers no other way


def _retry_after(headers: Any) -> str | None:
    return text_of(headers, "retry-after") or None
