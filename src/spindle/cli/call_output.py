"""What became of a call, for people, for programs and for pipes."""

from typing import Any

from spindle.artifacts.artifact import Artifact
from spindle.calls import CallOutcome, Err, Ok
from spindle.cli.cells import duration
from spindle.cli.output import Output, complain
from spindle.media import Media
from spindle.trust.envelope import render_outcome


async def print_text(out: Output, outcome: CallOutcome, artifact_id: str | None) -> None:
    """Show the outcome, what a model would see, and how to read what was too large to show."""
    result = outcome.result
    became = out.styled("ok", "green bold") if isinstance(result, Ok) else out.styled(result.code, "red bold")
    ran = "" if outcome.attempts else ", it did not run"
    took = out.styled(f"in {duration(outcome.duration_ms / 1000)}{ran}", "dim")
    out.line(f"{out.styled(outcome.name, 'bold')} {became} {took}")
    out.line(out.styled("what the model sees:", "dim"))
    out.text(render_outcome(outcome))
    if isinstance(result, Err):
        if result.code == "needs_approval":
            out.line(out.styled("approve it with --yes, or run it at a terminal and answer there", "cyan"))
        return
    for media in result.media:
        if isinstance(media, Media):
            out.text(f"media: {media.kind} {media.mime_type} {media.safe_filename}")
    if result.artifact is not None:
        await _print_artifact(out, result.artifact, artifact_id)


async def _print_artifact(out: Output, artifact: Any, artifact_id: str | None) -> None:
    size = await _size(artifact)
    told = f"{size['lines']} lines, {size['bytes']} bytes" if size else "of unknown size"
    if artifact_id is None:
        out.line(f"{out.styled('artifact:', 'dim')} {told}, gone with this process; --output raw prints it whole")
        return
    out.line(f"{out.styled('artifact:', 'dim')} {out.styled(artifact_id, 'bold')}, {told}, kept whole; read it with")
    short = artifact_id.rpartition("/")[2]
    for command in ("head", "grep PATTERN", "cat"):
        verb, *rest = command.split()
        out.line(out.styled(f"  spindle spool {' '.join([verb, short, *rest])}", "cyan"))


async def print_raw(out: Output, outcome: CallOutcome) -> None:
    """Print the whole result and nothing else; an error goes to stderr."""
    result = outcome.result
    if isinstance(result, Err):
        complain(f"{outcome.name}: {result.code}: {result.error}")
    elif isinstance(result.artifact, Artifact):
        out.bytes(await result.artifact.as_bytes())
    else:
        out.contents(result.value)


async def print_json(out: Output, outcome: CallOutcome, artifact_id: str | None) -> None:
    """Print what programs are told of an outcome; these keys stay."""
    result = outcome.result
    err = result if isinstance(result, Err) else None
    ok = result if isinstance(result, Ok) else Ok()
    size = None if ok.artifact is None else {"id": artifact_id, **await _size(ok.artifact)}
    out.json(
        {
            "tool_call_id": outcome.tool_call_id,
            "tool": outcome.name,
            "ok": outcome.ok,
            "code": err and err.code,
            "error": err and err.error,
            "field": err and err.field,
            "retryable": bool(err and err.retryable),
            "value": None if err else ok.value,
            "model_text": render_outcome(outcome),
            "structured": ok.structured,
            "media": [_media(each) for each in ok.media],
            "artifact": size,
            "trusted": ok.trusted,
            "cost_usd": ok.cost_usd,
            "duration_ms": round(outcome.duration_ms, 3),
            "attempts": outcome.attempts,
            "checksum": outcome.checksum,
        }
    )


async def _size(artifact: Any) -> dict[str, int]:
    if not isinstance(artifact, Artifact):
        return {}
    return {"bytes": await artifact.byte_length(), "lines": await artifact.line_count()}


def _media(media: Any) -> dict[str, Any]:
    if not isinstance(media, Media):
        return {"kind": type(media).__name__}
    return {"id": media.id, "kind": media.kind, "mime_type": media.mime_type, "filename": media.safe_filename}
