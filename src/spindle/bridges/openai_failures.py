"""What went wrong, when an OpenAI SDK or the server behind it says so."""

import json
from collections.abc import Mapping
from typing import Any, Final

from spindle.bridges.provider import Failure
from spindle.bridges.reading import field_of, text_of
from spindle.errors import BrokenAnswerError

_STATUSES: Final = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "server_error": 500,
    "internal_error": 500,
    "api_error": 500,
    "overloaded_error": 503,
    "service_unavailable": 503,
    "vector_store_timeout": 504,
}
"""Errors inside an answer that began well have no status of their own."""


def raise_for_error(event: Any) -> None:
    """Let an event that says that the answer failed fail."""
    kind = text_of(event, "type")
    if kind == "error":
        raise _said(event)
    if kind in {"response.failed", "response.cancelled"}:
        raise _said(field_of(field_of(event, "response"), "error"))


def raise_for_response(response: Any) -> None:
    """Let a whole answer that failed, or is none, fail."""
    if field_of(response, "error") is not None or text_of(response, "status") in {"failed", "cancelled"}:
        raise _said(field_of(response, "error"))
    if field_of(response, "choices") is None and field_of(response, "output") is None:
        raise BrokenAnswerError(f"the server sent no answer: {response}")


def failure_of(error: Exception) -> Failure | None:
    """Say what an exception means; `None` for one that is not the provider's."""
    import openai  # noqa: PLC0415  an extra

    if isinstance(error, openai.APIStatusError):
        return Failure(error.message, error.status_code, _retry_after(error.response.headers))
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__
        return Failure(f"{error.message} {type(cause).__name__}: {cause}" if cause is not None else error.message)
    if isinstance(error, openai.APIResponseValidationError):
        return Failure(error.message)
    if isinstance(error, openai.APIError):
        return Failure(error.message, _status(error.body))
    # The SDK reads each event as JSON and lets what is none through as it fell.
    return Failure(f"an event of the stream is no JSON: {error}") if isinstance(error, json.JSONDecodeError) else None


def _said(error: Any) -> BrokenAnswerError:
    words = text_of(error, "message") or text_of(error, "code") or "the answer failed, and the server did not say why"
    return BrokenAnswerError(words, http_status=_status(error))


def _status(error: Any) -> int | None:
    """Give the status an error inside an answer would have had; `None` where that cannot be said."""
    code = field_of(error, "code")
    if isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600:
        return code
    names = (text_of(error, "code"), text_of(error, "type"))
    known = next((_STATUSES[name] for name in names if name in _STATUSES), None)
    if known is None and any(name.isdecimal() and len(name) == 3 for name in names):
        return int(next(name for name in names if name.isdecimal() and len(name) == 3))
    return known if known is not None else 400 if any("invalid" in name for name in names) else None


def _retry_after(headers: Mapping[str, str]) -> str | None:
    milliseconds = headers.get("retry-after-ms")
    try:
        return str(float(milliseconds) / 1000) if milliseconds else headers.get("retry-after")
    except ValueError:
        return headers.get("retry-after")
