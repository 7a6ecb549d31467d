"""Errors that the model must act on: one call failed, and the error becomes an `Err`."""

from collections.abc import Callable, Sequence
from typing import Any

from spindle.errors.base import SpindleError, rebuild


class CallError(SpindleError):
    """A call failed in a way that the model should see."""

    code = "E_CALL"
    status = 422


class InvalidToolArgsError(CallError):
    """Arguments do not match the schema; `problems` lists which and why, `field` is the path of the first.

    Rejecting a call is a hot path, so problems and message are computed on first access.
    """

    code = "E_INVALID_TOOL_ARGS"
    problems: tuple[Any, ...]

    def __init__(
        self,
        message: str | Callable[[Sequence[Any], str | None], str],
        *,
        tool: str | None = None,
        problems: Sequence[Any] | Callable[[], Sequence[Any]] = (),
    ) -> None:
        self.args = (message,)
        self.tool = tool
        self._problems = problems

    def __getattr__(self, name: str) -> Any:
        if name not in ("problems", "field"):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        source = self._problems
        self._problems = self.problems = tuple(source() if callable(source) else source)
        self.field = (self.problems[0].path or None) if self.problems else None
        return self.__dict__[name]

    def __str__(self) -> str:
        message: Any = self.args[0]
        if callable(message):
            self.args = (message(self.problems, self.tool),)
        return super().__str__()

    def __reduce__(self) -> tuple[Callable[..., SpindleError], tuple[object, ...]]:
        text, _ = str(self), self.problems
        return rebuild, (type(self), (text,), self.__dict__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class NotCanonicalError(CallError):
    """A value cannot be serialized as canonical JSON; `path` is its location."""

    code = "E_NOT_CANONICAL"

    def __init__(self, message: str, *, path: str = "$", tool: str | None = None) -> None:
        super().__init__(message, tool=tool)
        self.path = path


class ToolDownstreamError(CallError):
    """A tool's handler raised; `__cause__` is the original exception."""

    code = "E_TOOL_DOWNSTREAM_ERROR"
    status = 500


class HandlerFailedError(ToolDownstreamError):
    """A handler raised an exception that cannot be re-raised here; `class_name` and `text` describe it.

    Either it would interfere with the event loop (`StopIteration`, a cancellation raised by the handler), or it cannot
    be sent from a worker process. `__cause__` is the original, if available.
    """

    code = "E_HANDLER_FAILED"
    status = 500

    def __init__(self, message: str, *, tool: str | None = None, class_name: str, text: str = "") -> None:
        super().__init__(message, tool=tool)
        self.class_name = class_name
        self.text = text


class ToolTimeoutError(CallError):
    """A call took longer than its `timeout_seconds` and was cancelled."""

    code = "E_TOOL_TIMEOUT"
    status = 504

    def __init__(self, message: str, *, tool: str | None = None, timeout_seconds: float | None = None) -> None:
        super().__init__(message, tool=tool)
        self.timeout_seconds = timeout_seconds


class ToolNotAvailableError(CallError):
    """A tool may not be used here: a filter, its availability check, the journal or an interceptor refused the call."""

    code = "E_TOOL_NOT_AVAILABLE"
    status = 403


class ApprovalDeniedError(CallError):
    """The approver denied a call, or could not be asked; the call was not run."""

    code = "E_APPROVAL_DENIED"
    status = 403


class ApprovalRequiredError(CallError):
    """A call needs approval and no approver is configured; it was not run.

    `ticket` is set if it waits in a journal: `Executor.resume` answers it.
    """

    code = "E_APPROVAL_REQUIRED"
    status = 428

    def __init__(
        self, message: str, *, tool: str | None = None, field: str | None = None, ticket: str | None = None
    ) -> None:
        super().__init__(message, tool=tool, field=field)
        self.ticket = ticket


class WorkerDiedError(CallError):
    """The worker process of a call ended without a result; `exit_code` or `signal` is set if known."""

    code = "E_WORKER_DIED"
    status = 502

    def __init__(
        self, message: str, *, tool: str | None = None, exit_code: int | None = None, signal: int | None = None
    ) -> None:
        super().__init__(message, tool=tool)
        self.exit_code = exit_code
        self.signal = signal


class NotSendableError(CallError):
    """A value cannot be sent from a worker process because it is not plain data; `type_name` is its type."""

    code = "E_NOT_SENDABLE"
    status = 500

    def __init__(self, message: str, *, tool: str | None = None, type_name: str) -> None:
        super().__init__(message, tool=tool)
        self.type_name = type_name


class EngineMessageError(CallError):
    """A call or its result cannot cross between caller and worker: its format, its spool entry or its state key."""

    code = "E_ENGINE_MESSAGE"
    status = 502


class CapabilityError(CallError):
    """A tool used a capability that it did not declare or was not granted."""

    code = "E_CAPABILITY"
    status = 403


class HostNotAllowedError(CapabilityError):
    """The tool may not connect to a host, or to an address its name resolves to; `host` is the host."""

    code = "E_HOST_NOT_ALLOWED"
    status = 403

    def __init__(self, message: str, *, host: str, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="network")
        self.host = host


class CommandNotAllowedError(CapabilityError):
    """The tool may not run a command or a shell line; `command` is the command."""

    code = "E_COMMAND_NOT_ALLOWED"
    status = 403

    def __init__(self, message: str, *, command: str, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="process")
        self.command = command


class SandboxUnavailableError(CapabilityError):
    """A required sandbox is not available on this machine; `missing` names what could not be enforced."""

    code = "E_SANDBOX_UNAVAILABLE"
    status = 501

    def __init__(self, message: str, *, missing: Sequence[str] = (), tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="process")
        self.missing = tuple(missing)


class ProcessStartError(CapabilityError):
    """An allowed command did not start; `command` is the command, `errno` the system's error number if known."""

    code = "E_PROCESS_START"
    status = 502

    def __init__(self, message: str, *, command: str, errno: int | None = None, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="process")
        self.command = command
        self.errno = errno


class ProgramNotFoundError(ProcessStartError):
    """No program with that name is on the search path, or at the given path."""

    code = "E_PROGRAM_NOT_FOUND"
    status = 404


class ProgramNotExecutableError(ProcessStartError):
    """The file with that name cannot be executed: permission denied, or not a program."""

    code = "E_PROGRAM_NOT_EXECUTABLE"
    status = 403


class ArgumentsTooLongError(ProcessStartError):
    """Arguments and environment together exceed the system's limit."""

    code = "E_ARGUMENTS_TOO_LONG"
    status = 413


class UnknownAttachmentError(CapabilityError):
    """No attachment visible to the tool has the requested id; `attachment_id` is that id."""

    code = "E_UNKNOWN_ATTACHMENT"
    status = 404

    def __init__(self, message: str, *, attachment_id: str, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="attachments")
        self.attachment_id = attachment_id


class SecretError(CallError):
    """A declared secret is not available: it is not set, or its source failed; `secret` is its name."""

    code = "E_SECRET"
    status = 503

    def __init__(self, message: str, *, secret: str | None = None, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="secrets")
        self.secret = secret


class StorageError(CallError):
    """A value cannot be stored or read; `field` names the invalid part, or is `storage` if the backend failed."""

    code = "E_STORAGE"
    status = 422


class StorageQuotaError(StorageError):
    """A write would exceed a tool's storage quota and was not done; `quota` names it, `asked` is the requested size."""

    code = "E_STORAGE_QUOTA"
    status = 507

    def __init__(self, message: str, *, quota: str, limit: int, asked: int, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="storage")
        self.quota = quota
        self.limit = limit
        self.asked = asked


class NetworkError(CallError):
    """A request to an allowed host failed.

    `reason` is one of dns, connect, tls, timeout, protocol, decoding, too_large, too_many_redirects, consumed.
    """

    code = "E_NETWORK"
    status = 502

    def __init__(self, message: str, *, host: str, reason: str, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="network")
        self.host = host
        self.reason = reason


class PathNotReachableError(CapabilityError):
    """A path is outside the files that the call may access; `path` is the path as passed."""

    code = "E_PATH_NOT_REACHABLE"
    status = 403

    def __init__(self, message: str, *, path: str, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="files")
        self.path = path


class StaleWriteError(CallError):
    """A file was changed or deleted since it was read; `path` is the file."""

    code = "E_STALE_WRITE"
    status = 409

    def __init__(self, message: str, *, path: str, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="files")
        self.path = path


class FileAccessError(CallError):
    """An operation on an accessible file failed.

    `reason` is one of missing, not_a_file, not_a_folder, not_empty, too_large, not_text, bad_name, denied, full, io.
    """

    code = "E_FILE_ACCESS"
    status = 422

    def __init__(self, message: str, *, path: str, reason: str, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="files")
        self.path = path
        self.reason = reason


class FileMissingError(FileAccessError, FileNotFoundError):
    """No file exists at `path`."""

    code = "E_FILE_MISSING"
    status = 404

    def __init__(self, message: str, *, path: str, tool: str | None = None) -> None:
        super().__init__(message, path=path, reason="missing", tool=tool)


class UnshowableRequestError(CallError):
    """The arguments of a call cannot be shown to the person who must approve it; the call is refused."""

    code = "E_UNSHOWABLE_REQUEST"
    status = 422


class ArtifactQueryError(CallError):
    """A query of an artifact is invalid or cannot be answered."""

    code = "E_ARTIFACT_QUERY"


class ArtifactGoneError(CallError):
    """The content of an artifact was deleted after it was opened."""

    code = "E_ARTIFACT_GONE"
    status = 410
