"""Secrets that were handed out, masked in what a call gave before anybody sees or keeps it."""

from dataclasses import replace

from spindle.calls import Ok
from spindle.capabilities.secrets import Redactor
from spindle.execution.settle import Settled


def redacted(settled: Settled, redactor: Redactor) -> Settled:
    """Give a result with every secret masked: its text, its structured part, its whole bytes, its error."""
    if not redactor:
        return settled
    result = settled.result
    if isinstance(result, Ok):
        value, structured = redactor.redact(result.value), redactor.redact_value(result.structured)
        if value is not result.value or structured is not result.structured:
            result = replace(result, value=value, structured=structured)
    else:
        result = replace(result, error=redactor.redact(result.error))
    whole = None if settled.whole is None else redactor.redact_bytes(settled.whole)
    return Settled(result, whole)
