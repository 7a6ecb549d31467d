"""An outcome as JSON: what the command prints, and what the API of the server answers; the keys are stable."""

from spindle.artifacts.artifact import Artifact
from spindle.calls import CallOutcome, Err, Ok
from spindle.json_types import JsonObject
from spindle.media import Media
from spindle.trust.envelope import render_outcome


async def report_outcome(outcome: CallOutcome, artifact_id: str | None) -> JsonObject:
    """Return an outcome as JSON, with the text a model would see; `artifact_id` is where its full result is stored."""
    result = outcome.result
    err = result if isinstance(result, Err) else None
    ok = result if isinstance(result, Ok) else Ok()
    size = None if ok.artifact is None else {"id": artifact_id, **await _measure(ok.artifact)}
    return {
        "tool_call_id": outcome.tool_call_id,
        "tool": outcome.name,
        "ok": outcome.ok,
        "code": err and err.code,
        "error": err and err.error,
        "field": err and err.field,
        "retryable": bool(err and err.retryable),
        "ticket": err and err.ticket,
        "reason": err and err.reason,
        "value": None if err else ok.value,
        "model_text": render_outcome(outcome),
        "structured": ok.structured,
        "media": [_describe_media(each) for each in ok.media],
        "artifact": size,
        "trusted": ok.trusted,
        "cost_usd": ok.cost_usd,
        "duration_ms": round(outcome.duration_ms, 3),
        "attempts": outcome.attempts,
        "checksum": outcome.checksum,
    }


async def _measure(artifact: object) -> dict[str, int]:
    if not isinstance(artifact, Artifact):
        return {}
    return {"bytes": await artifact.byte_length(), "lines": await artifact.line_count()}


def _describe_media(media: object) -> JsonObject:
    if not isinstance(media, Media):
        return {"kind": type(media).__name__}
    return {"id": media.id, "kind": media.kind, "mime_type": media.mime_type, "filename": media.safe_filename}
