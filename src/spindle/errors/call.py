"""The model must act: one call failed, and becomes an `Err`."""

from collections.abc import Callable, Sequence
from typing import Any

from spindle.errors.base import SpindleError, rebuild


class CallError(SpindleError):
    """One call failed in a way the model should see."""

    code = "E_CALL"
    status = 422


class InvalidToolArgsError(CallError):
    """Arguments do not fit the schema; `problems` says which and why, `field` where the first one is.

    Refusing is a hot path: what is wrong is worked out and worded when someone looks.
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

    def __reduce__(self) -> tuple[Callable[..., SpindleError], tuple[Any, ...]]:
        text, _ = str(self), self.problems
        return rebuild, (type(self), (text,), self.__dict__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class NotCanonicalError(CallError):
    """A value has no canonical JSON; `path` says where it sits."""

    code = "E_NOT_CANONICAL"

    def __init__(self, message: str, *, path: str = "$", tool: str | None = None) -> None:
        super().__init__(message, tool=tool)
        self.path = path


class ToolDownstreamError(CallError):
    """A tool's handler raised; `__cause__` is what it raised."""

    code = "E_TOOL_DOWNSTREAM_ERROR"
    status = 500


class HandlerFailedError(ToolDownstreamError):
    """A handler raised what cannot be raised here as it is; `class_name` and `text` describe it.

    Either it would steer the event loop (`StopIteration`, a cancellation of its own), or it does not cross from a
    worker process. `__cause__` is the original where there is one.
    """

    code = "E_HANDLER_FAILED"
    status = 500

    def __init__(self, message: str, *, tool: str | None = None, class_name: str, text: str = "") -> None:
        super().__init__(message, tool=tool)
        self.class_name = class_name
        self.text = text


class WorkerDiedError(CallError):
    """The process a call ran in ended without an answer; `exit_code` or `signal` says how, if that is known."""

    code = "E_WORKER_DIED"
    status = 502

    def __init__(
        self, message: str, *, tool: str | None = None, exit_code: int | None = None, signal: int | None = None
    ) -> None:
        super().__init__(message, tool=tool)
        self.exit_code = exit_code
        self.signal = signal


class NotSendableError(CallError):
    """A value cannot leave the process a call ran in, because it does not pickle; `type_name` says what it is."""

    code = "E_NOT_SENDABLE"
    status = 500

    def __init__(self, message: str, *, tool: str | None = None, type_name: str) -> None:
        super().__init__(message, tool=tool)
        self.type_name = type_name


class CapabilityError(CallError):
    """A handle was touched that the tool did not declare or was not granted."""

    code = "E_CAPABILITY"
    status = 403


class HostNotAllowedError(CapabilityError):
    """A host, or an address behind its name, may not be reached; `host` says which."""

    code = "E_HOST_NOT_ALLOWED"
    status = 403

    def __init__(self, message: str, *, host: str, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="network")
        self.host = host


class CommandNotAllowedError(CapabilityError):
    """A command, or a line for a shell, may not be run by this tool; `command` says which."""

    code = "E_COMMAND_NOT_ALLOWED"
    status = 403

    def __init__(self, message: str, *, command: str, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="process")
        self.command = command


class SandboxUnavailableError(CapabilityError):
    """A sandbox was required and cannot be had here; `missing` names what could not be enforced."""

    code = "E_SANDBOX_UNAVAILABLE"
    status = 501

    def __init__(self, message: str, *, missing: Sequence[str] = (), tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="process")
        self.missing = tuple(missing)


class ProcessStartError(CapabilityError):
    """A command that may be run did not start; `command` says which, `errno` what the system said, if it did."""

    code = "E_PROCESS_START"
    status = 502

    def __init__(self, message: str, *, command: str, errno: int | None = None, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="process")
        self.command = command
        self.errno = errno


class ProgramNotFoundError(ProcessStartError):
    """No program of that name is on the search path, or at that place."""

    code = "E_PROGRAM_NOT_FOUND"
    status = 404


class ProgramNotExecutableError(ProcessStartError):
    """What has that name cannot be run: no permission, or no program."""

    code = "E_PROGRAM_NOT_EXECUTABLE"
    status = 403


class ArgumentsTooLongError(ProcessStartError):
    """Arguments and environment are longer than the system takes."""

    code = "E_ARGUMENTS_TOO_LONG"
    status = 413


class UnknownAttachmentError(CapabilityError):
    """No attachment of the turn that the tool may see has that id; `attachment_id` says which was asked for."""

    code = "E_UNKNOWN_ATTACHMENT"
    status = 404

    def __init__(self, message: str, *, attachment_id: str, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="attachments")
        self.attachment_id = attachment_id


class SecretError(CallError):
    """A declared secret cannot be had: nobody set it, or its source failed; `secret` is its name."""

    code = "E_SECRET"
    status = 503

    def __init__(self, message: str, *, secret: str | None = None, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="secrets")
        self.secret = secret


class StorageError(CallError):
    """A value cannot be kept, or read back; `field` says which part is wrong; `storage` when the place failed."""

    code = "E_STORAGE"
    status = 422


class StorageQuotaError(StorageError):
    """A tool would keep more than it may; nothing was changed. `quota` names the limit, `asked` is what was wanted."""

    code = "E_STORAGE_QUOTA"
    status = 507

    def __init__(self, message: str, *, quota: str, limit: int, asked: int, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="storage")
        self.quota = quota
        self.limit = limit
        self.asked = asked


class NetworkError(CallError):
    """A host that may be reached did not answer as it should.

    `reason` is one of dns, connect, tls, timeout, protocol, decoding, too_large, too_many_redirects, consumed.
    """

    code = "E_NETWORK"
    status = 502

    def __init__(self, message: str, *, host: str, reason: str, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="network")
        self.host = host
        self.reason = reason


class PathNotReachableError(CapabilityError):
    """A path leads out of what a call may reach; `path` is it as it was given."""

    code = "E_PATH_NOT_REACHABLE"
    status = 403

    def __init__(self, message: str, *, path: str, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="files")
        self.path = path


class StaleWriteError(CallError):
    """A file changed or vanished since it was read; `path` says which."""

    code = "E_STALE_WRITE"
    status = 409

    def __init__(self, message: str, *, path: str, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="files")
        self.path = path


class FileAccessError(CallError):
    """A file in reach cannot be used as asked.

    `reason` is one of missing, not_a_file, not_a_folder, not_empty, too_large, not_text, bad_name, denied, full, io.
    """

    code = "E_FILE_ACCESS"
    status = 422

    def __init__(self, message: str, *, path: str, reason: str, tool: str | None = None) -> None:
        super().__init__(message, tool=tool, field="files")
        self.path = path
        self.reason = reason


class FileMissingError(FileAccessError, FileNotFoundError):
    """No file is at `path`."""

    code = "E_FILE_MISSING"
    status = 404

    def __init__(self, message: str, *, path: str, tool: str | None = None) -> None:
        super().__init__(message, path=path, reason="missing", tool=tool)


class ArtifactQueryError(CallError):
    """A query of an artifact cannot be answered as asked."""

    code = "E_ARTIFACT_QUERY"


class ArtifactGoneError(CallError):
    """What an artifact reads was deleted after it was opened."""

    code = "E_ARTIFACT_GONE"
    status = 410
