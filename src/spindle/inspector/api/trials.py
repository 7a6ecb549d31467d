"""Endpoints of trials: make a call on the page, follow it, cancel it, and see its outcome as a model sees it."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from pydantic import Field, JsonValue

from spindle.artifacts.artifact import Artifact
from spindle.bridges.dialects import MCP
from spindle.calls import Err, Label, Ok
from spindle.concurrency import WorkerThreads
from spindle.errors import RequestConflictError, SpoolError
from spindle.inspector.endpoints import ApiModel, ApiRequest, Endpoint, NoInput, change, read
from spindle.inspector.live import Feed
from spindle.inspector.renderings import MediaFacts, SpanRole, describe_media, render
from spindle.inspector.request_bodies import check_values
from spindle.inspector.tool_rows import find_entry
from spindle.inspector.trials import PageTrial, TrialRequest, TrialState
from spindle.inspector.workbench import Workbench
from spindle.text import to_encodable
from spindle.tools.schema.base import Problem

MAX_WAIT_SECONDS: Final = 20.0
MAX_STRUCTURED_CHARS: Final = 200_000
_MAX_MEDIA: Final = 50
_JSON: Final = json.JSONEncoder(indent=2, ensure_ascii=False, default=str)
_threads: Final = WorkerThreads()


class NewTrial(ApiModel):
    """A call to make."""

    tool: str = Field(max_length=1_000)
    args: dict[str, JsonValue] | str
    """The arguments, or their JSON text, whose numbers then keep all digits."""
    dry_run: bool = False
    """Only describe what would happen."""
    ask: bool = False
    """Let the call wait for an approval, whatever its tool says."""


class TrialQuery(ApiModel):
    """A trial, and how long to wait for news of it."""

    id: str = Field(max_length=100)
    seen: int = Field(-1, ge=-1)
    """The `version` that the caller knows; the answer waits for a newer one."""
    wait_seconds: float = Field(0.0, ge=0, le=MAX_WAIT_SECONDS)


class TrialId(ApiModel):
    """A trial."""

    id: str = Field(max_length=100)


class RenderingQuery(TrialId):
    """A trial and a dialect."""

    dialect: str = Field(MCP.name, max_length=40)


class TrialNote(ApiModel):
    """A message of progress, or a warning."""

    message: str
    percent: float | None = None


class TrialProblem(ApiModel):
    """A rejected argument."""

    path: str
    message: str


class TrialMedia(ApiModel):
    """Facts about media of a result."""

    id: str
    kind: str
    mime_type: str
    filename: str


class TrialArtifact(ApiModel):
    """What was kept whole because it is large."""

    id: str | None
    """`None` if it was not stored."""
    bytes: int | None = None
    lines: int | None = None


class TrialOutcome(ApiModel):
    """What became of a call."""

    ok: bool
    code: str | None = None
    error: str | None = None
    field: str | None = None
    duration_ms: float
    attempts: int
    """How often the tool was started; 0 if it did not run."""
    label: Label | None = None
    cost_usd: float | None = None
    problems: tuple[TrialProblem, ...] = ()
    structured: str | None = None
    """The structured result as formatted JSON."""
    is_structured_cut: bool = False
    media: tuple[TrialMedia, ...] = ()
    artifact: TrialArtifact | None = None
    approval_id: str | None = None
    """The approval that the call waits for."""
    approval_status: str | None = None


class TrialView(ApiModel):
    """A trial and what is known about it now."""

    id: str
    tool: str
    state: TrialState
    version: int
    dry_run: bool
    started_at: datetime
    notes: tuple[TrialNote, ...] = ()
    outcome: TrialOutcome | None = None
    call_key: str | None = None
    """The key of the recorded call, if the journal has it."""


class TextSpan(ApiModel):
    """A piece of a text: outside of a fence, a tag of a fence, or inside of one."""

    role: SpanRole
    text: str


class TextOrMedia(ApiModel):
    """A part of a result."""

    kind: Literal["text", "media"]
    spans: tuple[TextSpan, ...] = ()
    media: TrialMedia | None = None


class TrialRendering(ApiModel):
    """An outcome as the models of a dialect get it."""

    dialect: str
    parts: tuple[TextOrMedia, ...]
    wire: str
    """The JSON that is sent, with the content of media shortened."""
    is_shortened: bool


async def start_trial(request: ApiRequest[NoInput, NewTrial]) -> TrialView:
    """Start a call as the user of the page; the answer may come before it has ended."""
    bench, user, body = request.bench, request.user, request.body
    entry = find_entry(bench, user, body.tool)
    if isinstance(body.args, str):
        check_values(body.args, field="args")
    wanted = TrialRequest(
        tool=entry.tool.name,
        args=body.args,
        session_id=f"page {user.session}",
        caller=user.describe_caller(),
        dry_run=body.dry_run,
        asks=body.ask and not body.dry_run,
    )
    trial = bench.trials.start(
        wanted,
        bench.executor,
        bench.registry,
        bench.get_filter(user.profile),
        owner=user.session,
        profile=user.profile,
    )
    return await _build_view(trial, bench)


async def show_trial(request: ApiRequest[TrialQuery, NoInput]) -> TrialView:
    """Return a trial, after its next change if the caller waits for that."""
    params = request.params
    trial = request.bench.trials.get(params.id, request.user.session)
    await trial.wait(params.seen, params.wait_seconds)
    return await _build_view(trial, request.bench)


async def cancel_trial(request: ApiRequest[TrialId, NoInput]) -> TrialView:
    """Cancel a running trial."""
    bench = request.bench
    trial = bench.trials.get(request.params.id, request.user.session)
    bench.trials.cancel(trial)
    await trial.wait(trial.version, 2.0)
    return await _build_view(trial, bench)


async def show_rendering(request: ApiRequest[RenderingQuery, NoInput]) -> TrialRendering:
    """Return the outcome of a trial exactly as the models of a dialect get it."""
    bench, params = request.bench, request.params
    trial = bench.trials.get(params.id, request.user.session)
    if trial.outcome is None:
        raise RequestConflictError("this call has no outcome yet")
    tool = bench.registry.get(trial.request.tool)
    own = None if tool is None else tool.max_result_chars
    most = bench.executor.budget.max_chars
    rendered = await render(
        trial.outcome,
        params.dialect,
        tool=tool,
        is_fenced=bench.is_fenced,
        is_structured=bench.is_structured,
        max_structured_chars=most if own is None else min(most, own),
    )
    parts = tuple(
        TextOrMedia(
            kind="text" if part.media is None else "media",
            spans=tuple(TextSpan(role=span.role, text=span.text) for span in part.spans),
            media=None if part.media is None else _build_media(part.media),
        )
        for part in rendered.parts
    )
    return TrialRendering(dialect=rendered.dialect, parts=parts, wire=rendered.wire, is_shortened=rendered.is_shortened)


async def _build_view(trial: PageTrial, bench: Workbench) -> TrialView:
    key = trial.key
    recorded = None if key is None else await bench.journal.find(key)
    return TrialView(
        id=trial.id,
        tool=to_encodable(trial.request.tool),
        state=trial.state,
        version=trial.version,
        dry_run=trial.request.dry_run,
        started_at=trial.started_at,
        notes=tuple(TrialNote(message=each.message, percent=each.percent) for each in trial.notes),
        outcome=await _build_outcome(trial, bench),
        call_key=None if recorded is None else key,
    )


async def _build_outcome(trial: PageTrial, bench: Workbench) -> TrialOutcome | None:
    outcome = trial.outcome
    if outcome is None:
        return None
    result = outcome.result
    took, attempts = round(outcome.duration_ms, 3), outcome.attempts
    if isinstance(result, Err):
        approval = None if result.ticket is None else result.ticket.partition("-")[0]
        return TrialOutcome(
            ok=False,
            code=result.code,
            error=to_encodable(result.error),
            field=result.field,
            duration_ms=took,
            attempts=attempts,
            problems=tuple(_build_problem(each) for each in trial.problems),
            approval_id=approval,
            approval_status=None if approval is None else await _find_status(bench, approval),
        )
    structured, is_cut = await _threads.run_abandonable(_write_structured, result)
    return TrialOutcome(
        ok=True,
        duration_ms=took,
        attempts=attempts,
        label=result.label,
        cost_usd=result.cost_usd,
        structured=structured,
        is_structured_cut=is_cut,
        media=tuple(_build_media(describe_media(each)) for each in result.media[:_MAX_MEDIA]),
        artifact=await _find_artifact(trial, result, bench),
    )


async def _find_status(bench: Workbench, approval_id: str) -> str | None:
    ticket = None if bench.tickets is None else await bench.tickets.get(approval_id)
    if ticket is None or bench.tickets is None:
        return None
    [approval] = await bench.tickets.describe([await bench.tickets.expire(ticket)])
    return approval.status


async def _find_artifact(trial: PageTrial, result: Ok, bench: Workbench) -> TrialArtifact | None:
    if result.artifact is None:
        return None
    place = f"{trial.request.session_id}/{trial.id}/{trial.id}"
    try:
        is_kept = await bench.spool.read(place) is not None
        artifact = result.artifact
        if not isinstance(artifact, Artifact):
            return TrialArtifact(id=place if is_kept else None)
        size, lines = await artifact.byte_length(), await artifact.line_count()
    except SpoolError:
        return TrialArtifact(id=None)
    return TrialArtifact(id=place if is_kept else None, bytes=size, lines=lines)


def _write_structured(result: Ok) -> tuple[str | None, bool]:
    if result.structured is None:
        return None, False
    pieces, chars = list[str](), 0
    try:
        for piece in _JSON.iterencode(result.structured):
            pieces.append(piece)
            chars += len(piece)
            if chars > MAX_STRUCTURED_CHARS:
                break  # a page asks again and again: the work must not grow with the result
    except (ValueError, RecursionError):
        return None, True
    text = to_encodable("".join(pieces))
    return text[:MAX_STRUCTURED_CHARS], chars > MAX_STRUCTURED_CHARS


def _build_problem(problem: Problem) -> TrialProblem:
    hint = f"; {problem.hint}" if problem.hint else ""
    text = f"{problem.received}; expected {problem.expected}{hint}"
    return TrialProblem(path=to_encodable(problem.path), message=to_encodable(text))


def _build_media(facts: MediaFacts) -> TrialMedia:
    return TrialMedia(id=facts.id, kind=facts.kind, mime_type=facts.mime_type, filename=to_encodable(facts.filename))


ENDPOINTS: Final[Sequence[Endpoint[Any, Any]]] = (
    change("/trials", start_trial, summary="Make a call.", params=NoInput, body=NewTrial, answer=TrialView),
    read("/trials/{id}", show_trial, summary="Follow a call.", params=TrialQuery, answer=TrialView),
    change(
        "/trials/{id}/cancel",
        cancel_trial,
        summary="Cancel a call.",
        params=TrialId,
        body=NoInput,
        answer=TrialView,
    ),
    read(
        "/trials/{id}/rendering",
        show_rendering,
        summary="Show an outcome as a model sees it.",
        params=RenderingQuery,
        answer=TrialRendering,
    ),
)
FEEDS: Final[Mapping[str, Feed]] = {}
