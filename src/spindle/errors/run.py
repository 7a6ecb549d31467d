"""Errors that the caller must act on: the turn cannot continue."""

from typing import Literal, TypeAlias

from spindle.errors.base import SpindleError


class RunError(SpindleError):
    """The turn cannot continue."""

    code = "E_RUN"


class MediaUnreadableError(RunError):
    """The content of media cannot be read: its source is gone, is not a regular file, or does not return bytes."""

    code = "E_MEDIA_UNREADABLE"
    status = 502


class UpstreamError(RunError):
    """An MCP server cannot be used: it did not start, does not respond, or has disconnected."""

    code = "E_UPSTREAM"
    status = 502

    def __init__(self, message: str, *, server: str) -> None:
        super().__init__(message)
        self.server = server


class UpstreamRefusedError(UpstreamError):
    """An MCP server answered a request for a prompt or resource with an error."""

    code = "E_UPSTREAM_REFUSED"

    def __init__(self, message: str, *, server: str, rpc_code: int) -> None:
        super().__init__(message, server=server)
        self.rpc_code = rpc_code
        """The code of the JSON-RPC error."""


class UpstreamRequiredError(UpstreamError):
    """A required MCP server cannot be used."""

    code = "E_UPSTREAM_REQUIRED"


class LoginRequiredError(UpstreamError):
    """A user has no valid login at an MCP server; `command` is the command that logs in."""

    code = "E_LOGIN_REQUIRED"
    status = 401

    def __init__(self, message: str, *, server: str, user: str, command: str) -> None:
        super().__init__(message, server=server)
        self.user = user
        self.command = command


class OAuthError(RunError):
    """An authorization server cannot be used: it does not answer, or what it says is wrong or not allowed."""

    code = "E_OAUTH"
    status = 502

    def __init__(self, message: str, *, is_refused: bool = False) -> None:
        super().__init__(message)
        self.is_refused = is_refused
        """Whether a login is no longer accepted, so that trying again does not help."""


class SpoolError(RunError):
    """The spool of large outputs cannot be written or read; `__cause__` is the reason."""

    code = "E_SPOOL"
    status = 507


class EngineUnavailableError(RunError):
    """A durable engine cannot be reached now; what was asked of it may be asked again."""

    code = "E_ENGINE_UNAVAILABLE"
    status = 503


class JournalError(RunError):
    """The journal of calls cannot be written or read; `__cause__` is the reason."""

    code = "E_JOURNAL"
    status = 507


class JournalLockedError(JournalError):
    """Another process has locked the journal at `path`; `holder_pid` is that process, if known."""

    code = "E_JOURNAL_LOCKED"
    status = 423

    def __init__(self, message: str, *, path: str, holder_pid: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.holder_pid = holder_pid


class JournalDamagedError(JournalError):
    """A journal file is damaged; `aside` is the path it was moved to, if it was moved."""

    code = "E_JOURNAL_DAMAGED"
    status = 500

    def __init__(self, message: str, *, path: str, aside: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.aside = aside


class RecordsError(RunError):
    """The store of a turn's records cannot be written or read; `__cause__` is the reason."""

    code = "E_RECORDS"
    status = 507


class GateTimeoutError(RunError):
    """A gate was not resolved in time; the work it waited for may still be running elsewhere."""

    code = "E_TURN_GATE_TIMEOUT"
    status = 408

    def __init__(self, message: str, *, gate_id: str) -> None:
        super().__init__(message)
        self.gate_id = gate_id


class GateAbortedError(RunError):
    """A gate or its turn was aborted."""

    code = "E_TURN_GATE_ABORTED"
    status = 499

    def __init__(self, message: str, *, gate_id: str) -> None:
        super().__init__(message)
        self.gate_id = gate_id


class GateNotSupportedError(RunError):
    """A gate was opened in a context where it cannot be resolved."""

    code = "E_LLM_EXECUTION_GATE_NOT_SUPPORTED"
    status = 501


class ClientCapabilityError(GateNotSupportedError):
    """A tool requested a feature that the MCP client did not declare; `capability` names it, and nothing was sent."""

    code = "E_CLIENT_CAPABILITY"
    status = 400

    def __init__(self, message: str, *, capability: str, tool: str | None = None) -> None:
        super().__init__(message, tool=tool)
        self.capability = capability


class PipelineError(RunError):
    """Middleware failed; `__cause__` is the original exception."""

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
    """Middleware returned without calling `next` and without an ack or nack; `field` is the stage."""

    code = "E_PIPELINE_SHORT_CIRCUITED"


class ExecutorCallbackError(RunError):
    """The executor callback raised, or returned a value of an unsupported type."""

    code = "E_LLM_EXECUTION_EXECUTOR_ERROR"


class NackError(RunError):
    """The dispatch was nacked with a text, or without a reason."""

    code = "E_LLM_EXECUTION_NACK"


class LimitError(RunError):
    """A turn exceeded a limit: iterations, repeats of one call, or time; `field` names the limit."""

    code = "E_TURN_LIMIT"


class TurnAbortedError(RunError):
    """A turn was aborted and has no answer."""

    code = "E_TURN_ABORTED"
    status = 499


class TurnSuspendedError(RunError):
    """A turn was suspended and has no answer yet; resume its state once its questions are answered."""

    code = "E_TURN_SUSPENDED"
    status = 428


class TurnConflictError(RunError):
    """Another process has continued this turn; nothing that this one was about to do was done."""

    code = "E_TURN_CONFLICT"
    status = 409

    def __init__(self, message: str, *, turn_id: str) -> None:
        super().__init__(message)
        self.turn_id = turn_id


class TurnFailedError(RunError):
    """A turn failed on a worker of an engine; `class_name` is the class of the exception there, if it is known."""

    code = "E_TURN_FAILED"
    status = 502

    def __init__(self, message: str, *, class_name: str | None = None) -> None:
        super().__init__(message)
        self.class_name = class_name


TurnStateProblem: TypeAlias = Literal["invalid", "format", "tampered", "foreign", "unknown"]


class InvalidTurnStateError(RunError):
    """The state of a suspended turn cannot be resumed; `reason` says why, and nothing was run.

    `invalid`: it is not a state. `format`: its format, in `format`, is not supported. `tampered`: it was changed.
    `foreign`: it was made with another state key. `unknown`: the journal does not have the turn, or one of its tickets.
    """

    code = "E_INVALID_TURN_STATE"
    status = 422

    def __init__(self, message: str, *, reason: TurnStateProblem, format: int | None = None) -> None:
        super().__init__(message, field="state")
        self.reason = reason
        self.format = format


class InvalidAnswersError(RunError):
    """Answers do not fit the suspended turn; `reason` is `unknown`, `missing` or `invalid`, and `ids` names them."""

    code = "E_INVALID_ANSWERS"
    status = 422

    def __init__(self, message: str, *, reason: Literal["unknown", "missing", "invalid"], ids: tuple[str, ...]) -> None:
        super().__init__(message, field="answers")
        self.reason = reason
        self.ids = ids


class UnsavableTurnError(RunError):
    """A turn cannot be saved: `field` names the part that is not JSON, such as the stash."""

    code = "E_UNSAVABLE_TURN"


class ModelUnavailableError(RunError):
    """A model API returned no complete response; `http_status` is the last status, `attempts` the request count."""

    code = "E_MODEL_UNAVAILABLE"
    status = 502

    def __init__(self, message: str, *, http_status: int | None = None, attempts: int = 1) -> None:
        super().__init__(message)
        self.http_status = http_status
        self.attempts = attempts


class ContextOverflowError(RunError):
    """A prompt does not fit into the context window of the model: shorten the conversation and run the turn again.

    `prompt_tokens` and `context_tokens` are the sizes of the prompt and of the window, each `None` if it is unknown.
    `ContextOverflowError(9000, 8192)` has a message with both.
    """

    code = "E_CONTEXT_OVERFLOW"
    status = 413

    def __init__(
        self,
        message: str | int | None = "",
        context_tokens: int | None = None,
        *,
        prompt_tokens: int | None = None,
        http_status: int | None = None,
    ) -> None:
        if not isinstance(message, str):  # the published order: prompt_tokens, context_tokens
            message, prompt_tokens = "", message if prompt_tokens is None else prompt_tokens
        sizes = f"{'?' if prompt_tokens is None else prompt_tokens} of {context_tokens or '?'} tokens"
        super().__init__(message or f"The prompt does not fit into the model's context window: {sizes}.")
        self.prompt_tokens = prompt_tokens
        self.context_tokens = context_tokens
        self.http_status = http_status


class BrokenAnswerError(RunError):
    """A response of a model API is truncated, invalid, or reports a failure; the request may be retried.

    `body` is the error that the response reports, as plain data.
    """

    code = "E_BROKEN_ANSWER"
    status = 502

    def __init__(self, message: str, *, http_status: int | None = None, body: object = None) -> None:
        super().__init__(message)
        self.http_status = http_status
        self.body = body


class ModelStoppedError(RunError):
    """A model stopped before completing its answer; `reason` is the provider's stop reason, `text` the partial text."""

    code = "E_MODEL_STOPPED"
    status = 502

    def __init__(self, message: str, *, reason: str | None = None, text: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.text = text
