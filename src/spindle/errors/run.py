"""The caller must act: the turn cannot go on."""

from spindle.errors.base import SpindleError


class RunError(SpindleError):
    """The turn cannot go on."""

    code = "E_RUN"


class MediaUnreadableError(RunError):
    """The content of media cannot be read: its source is gone, is no regular file, or gives no bytes."""

    code = "E_MEDIA_UNREADABLE"
    status = 502


class UpstreamError(RunError):
    """An MCP server cannot be used: it does not start, does not answer, or is gone."""

    code = "E_UPSTREAM"
    status = 502

    def __init__(self, message: str, *, server: str) -> None:
        super().__init__(message)
        self.server = server


class UpstreamRequiredError(UpstreamError):
    """An MCP server that is required cannot be used."""

    code = "E_UPSTREAM_REQUIRED"


class SpoolError(RunError):
    """The place where large outputs are kept cannot be written or read; `__cause__` says why."""

    code = "E_SPOOL"
    status = 507


class JournalError(RunError):
    """The record of calls cannot be written or read; `__cause__` says why."""

    code = "E_JOURNAL"
    status = 507


class JournalLockedError(JournalError):
    """Another process writes that journal; `path` says which one, `holder_pid` who, if that is known."""

    code = "E_JOURNAL_LOCKED"
    status = 423

    def __init__(self, message: str, *, path: str, holder_pid: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.holder_pid = holder_pid


class JournalDamagedError(JournalError):
    """A journal's file cannot be used as it is; `aside` says where it was put, if it was moved."""

    code = "E_JOURNAL_DAMAGED"
    status = 500

    def __init__(self, message: str, *, path: str, aside: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.aside = aside


class RecordsError(RunError):
    """The place where a turn's records are kept cannot be written or read; `__cause__` says why."""

    code = "E_RECORDS"
    status = 507


class GateTimeoutError(RunError):
    """Nobody settled a gate in time; the work it was waiting for may still go on outside."""

    code = "E_TURN_GATE_TIMEOUT"
    status = 408

    def __init__(self, message: str, *, gate_id: str) -> None:
        super().__init__(message)
        self.gate_id = gate_id


class GateAbortedError(RunError):
    """A gate was given up, or its turn was aborted."""

    code = "E_TURN_GATE_ABORTED"
    status = 499

    def __init__(self, message: str, *, gate_id: str) -> None:
        super().__init__(message)
        self.gate_id = gate_id


class GateNotSupportedError(RunError):
    """A gate was opened where nobody can answer it."""

    code = "E_LLM_EXECUTION_GATE_NOT_SUPPORTED"
    status = 501


class ClientCapabilityError(GateNotSupportedError):
    """A tool asked an MCP client for what it did not declare; `capability` names it, and nothing was sent."""

    code = "E_CLIENT_CAPABILITY"
    status = 400

    def __init__(self, message: str, *, capability: str, tool: str | None = None) -> None:
        super().__init__(message, tool=tool)
        self.capability = capability


class PipelineError(RunError):
    """Middleware failed; `__cause__` is what it raised."""

    code = "E_PIPELINE_ERROR"


class InputPipelineError(PipelineError):
    """Middleware of the turn failed before the dispatch."""

    code = "E_INPUT_PIPELINE_ERROR"


class OutputPipelineError(PipelineError):
    """Middleware of the turn failed after the dispatch."""

    code = "E_OUTPUT_PIPELINE_ERROR"


class DispatchPipelineError(PipelineError):
    """Middleware of the dispatch failed."""

    code = "E_DISPATCH_PIPELINE_ERROR"


class PipelineShortCircuitedError(PipelineError):
    """Middleware ended without calling `next`, and nobody had signalled; `field` is the stage."""

    code = "E_PIPELINE_SHORT_CIRCUITED"


class ExecutorCallbackError(RunError):
    """The executor callback raised, or answered with something that is no answer."""

    code = "E_LLM_EXECUTION_EXECUTOR_ERROR"


class NackError(RunError):
    """The dispatch was refused, with a text for a reason or without any."""

    code = "E_LLM_EXECUTION_NACK"


class LimitError(RunError):
    """A turn went beyond a limit: iterations, repeats of one call, or time; `field` says which."""

    code = "E_TURN_LIMIT"


class TurnAbortedError(RunError):
    """A turn was aborted, so it has no answer."""

    code = "E_TURN_ABORTED"
    status = 499


class ModelUnavailableError(RunError):
    """A model's server did not give a whole answer; `http_status` and `attempts` say how it was tried."""

    code = "E_MODEL_UNAVAILABLE"
    status = 502

    def __init__(self, message: str, *, http_status: int | None = None, attempts: int = 1) -> None:
        super().__init__(message)
        self.http_status = http_status
        self.attempts = attempts


class BrokenAnswerError(RunError):
    """One answer of a model's server broke off, says that it failed, or is none; the next attempt may do better."""

    code = "E_BROKEN_ANSWER"
    status = 502

    def __init__(self, message: str, *, http_status: int | None = None) -> None:
        super().__init__(message)
        self.http_status = http_status


class ModelStoppedError(RunError):
    """A model ended its answer before it was one; `reason` is the provider's word, `text` what it had said so far."""

    code = "E_MODEL_STOPPED"
    status = 502

    def __init__(self, message: str, *, reason: str | None = None, text: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.text = text
