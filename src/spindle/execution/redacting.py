"""Secrets that were handed out, masked in what a call gave before anybody sees or keeps it."""

from dataclasses import replace
from typing import Any

from spindle.artifacts.artifact import Artifact
from spindle.calls import Err, Ok
from spindle.capabilities.secrets import Redactor
from spindle.errors import HandlerFailedError
from spindle.execution.settle import Settled

MAX_ARTIFACT_BYTES = 8 << 20
"""An artifact up to this size is read whole to look for secrets, and made anew where it holds one."""


def redacted(settled: Settled, redactor: Redactor) -> Settled:
    """Give a result with every secret masked: its text, its structured part, its whole bytes, its error and cause."""
    if not redactor:
        return settled
    result = settled.result
    if isinstance(result, Ok):
        result = _clean_result(result, redactor)
    else:
        result = with_clean_cause(replace(result, error=redactor.redact(result.error)), redactor)
    whole = None if settled.whole is None else redactor.redact_bytes(settled.whole)
    return Settled(result, whole)


def _clean_result(result: Ok, redactor: Redactor) -> Ok:
    value, structured = redactor.redact(result.value), redactor.redact_value(result.structured)
    media = redactor.redact_value(result.media) if result.media else result.media
    if value is result.value and structured is result.structured and media is result.media:
        return result
    return replace(result, value=value, structured=structured, media=media)


async def with_clean_artifact(settled: Settled, redactor: Redactor) -> Settled:
    """Give a result whose artifact, which its handler made, holds no secret; a huge one is masked where it is read."""
    result = settled.result
    if not redactor or not isinstance(result, Ok) or not isinstance(result.artifact, Artifact):
        return settled
    try:
        if await result.artifact.byte_length() > MAX_ARTIFACT_BYTES:
            return settled
        data = await result.artifact.as_bytes()
    except Exception:  # noqa: BLE001  a reader may be anyone's; that it fails is told where it is shown
        return settled
    clean = redactor.redact_bytes(data)
    if clean is data:
        return settled
    return Settled(replace(result, artifact=_same_view(result.artifact, clean)), settled.whole)


def _same_view(artifact: Artifact, data: bytes) -> Artifact:
    plain = Artifact.from_bytes(data)
    try:
        return artifact.over(plain.reader)
    except Exception:  # noqa: BLE001  a class of others may be made in any way
        return plain


def with_clean_cause(err: Err, redactor: Redactor) -> Err:
    """Give an error whose cause shows no secret: masked in place, or only described where that cannot be done."""
    if err.cause is None or not redactor:
        return err
    try:
        cause = _clean(err.cause, redactor)
    except Exception:  # noqa: BLE001  whatever a stranger's exception does when it is looked at
        cause = _described(err.cause, "(its message cannot be shown)")
    return err if cause is err.cause else replace(err, cause=cause)


def _clean(cause: Any, redactor: Redactor) -> Any:
    if not isinstance(cause, BaseException):
        return redactor.redact_value(cause)
    return cause if redactor.redact_error(cause) else _described(cause, redactor.redact(str(cause)))


def _described(cause: object, text: str) -> HandlerFailedError:
    name = type(cause).__name__
    return HandlerFailedError(f"a handler raised {name}, which holds a secret", class_name=name, text=text)
