"""Every error we raise on purpose.

SpindleError
├── UsageError                        the developer must act; raised while setting up
│   ├── InvalidToolError                  a tool was defined with a bad or missing value
│   ├── ToolAlreadyRegisteredError        two tools claim one name
│   ├── UnknownToolError                  a name that no tool of the registry has
│   ├── InvalidToolFilterError            a filter was made of a bad value, or is none
│   ├── UnknownEventError                 an event name that is never emitted
│   ├── InvalidContextError               something that is no context was given as one
│   ├── InvalidStashError                 a stash cannot hold that, or a path is wrong
│   ├── InvalidMediaError                 media was described with a bad or missing value
│   ├── NotASpoolReaderError              an artifact was given something that cannot be read
│   ├── InvalidArtifactError              an artifact's content is not what its class reads
│   ├── InvalidToolCallRecordError        a record was made with a bad or missing value
│   ├── InvalidRecordError                a turn cannot keep that as a record
│   │   ├── InvalidMessageError               a message was made with a bad value
│   │   ├── InvalidThoughtError               a thought was made with a bad value
│   │   ├── InvalidMemoryError                a memory was made with a bad value
│   │   └── InvalidRetrievableError           a retrievable was made with a bad value
│   ├── ArtifactIdCollisionError          two results of one turn share an id
│   ├── InvalidBudgetError                a budget has two units, or no room
│   ├── InvalidReducerError               a reducer has a bad or missing part
│   ├── ReducerAlreadyRegisteredError     two reducers claim one tool
│   ├── InvalidTrustError                 a fence, a label or a sink policy was given a bad value
│   ├── InvalidTurnRunnerConfigError      a runner was wired up wrongly
│   ├── InvalidTurnContextError           a turn was started with a bad value
│   ├── InvalidDispatchContextError       a dispatch context was made with a bad value
│   ├── InvalidDispatchInputError         a dispatch was given none or two things to start from
│   ├── AlreadySignalledError             a dispatch was acknowledged or refused twice
│   ├── InvalidGateError                  a gate was made with a bad value, or cannot be waited for here
│   ├── InvalidGateResolutionError        a gate was settled with a value it does not take
│   ├── UnknownGateError                  an id that no open gate has
│   └── MissingExtraError                 a feature needs a package that is not installed
├── CallError                         the model must act; becomes an Err
│   ├── InvalidToolArgsError              arguments do not fit the schema
│   ├── NotCanonicalError                 a value has no canonical JSON
│   ├── ToolDownstreamError               the handler raised
│   │   └── HandlerFailedError                what it raised cannot be raised here as it is
│   ├── WorkerDiedError                   the process a call ran in is gone
│   ├── NotSendableError                  a value cannot leave the process a call ran in
│   ├── CapabilityError                   a handle was touched that was not declared or granted
│   │   ├── PathNotReachableError             a path is out of a call's reach
│   │   ├── CommandNotAllowedError            a command, or a line for a shell, may not be run
│   │   ├── SandboxUnavailableError           a required sandbox cannot be had here
│   │   ├── ProcessStartError                 a command that may be run did not start
│   │   │   ├── ProgramNotFoundError              no program has that name
│   │   │   ├── ProgramNotExecutableError         what has that name cannot be run
│   │   │   └── ArgumentsTooLongError             the system takes no arguments as long as these
│   │   ├── HostNotAllowedError               a host, or the address behind it, may not be reached
│   │   └── UnknownAttachmentError            an id that none of the turn's attachments has
│   ├── NetworkError                      a host that may be reached did not answer as it should
│   ├── StaleWriteError                   a file changed since it was read
│   ├── FileAccessError                   a file in reach cannot be used as asked
│   │   └── FileMissingError                  it is not there
│   ├── SecretError                       a declared secret cannot be had
│   ├── StorageError                      a value cannot be kept, or read back
│   │   └── StorageQuotaError                 a tool would keep more than it may
│   ├── ArtifactGoneError                 what an artifact reads was deleted
│   └── ArtifactQueryError                a query of an artifact cannot be answered
└── RunError                          the caller must act; the turn stops
    ├── SpoolError                        the place where large outputs are kept failed
    ├── JournalError                      the record of calls cannot be written or read
    │   ├── JournalLockedError                another process writes that journal
    │   └── JournalDamagedError               a journal's file cannot be used as it is
    ├── PipelineError                     middleware failed
    │   ├── InputPipelineError                before the dispatch
    │   ├── OutputPipelineError               after the dispatch
    │   ├── DispatchPipelineError             inside the dispatch
    │   └── PipelineShortCircuitedError       middleware ended without calling next
    ├── ExecutorCallbackError             the executor callback raised
    ├── NackError                         the dispatch was refused without a reason
    ├── LimitError                        a turn went beyond a limit
    ├── TurnAbortedError                  a turn was aborted
    ├── RecordsError                      the place where records are kept failed
    ├── GateTimeoutError                  nobody settled a gate in time
    ├── GateAbortedError                  a gate was given up, or its turn was
    ├── MediaUnreadableError              the content of media cannot be read
    └── GateNotSupportedError             nobody here can answer a gate
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar


class SpindleError(Exception):
    """Root of the errors above."""

    code: ClassVar[str] = "E_SPINDLE"
    status: ClassVar[int] = 500
    fatal: ClassVar[bool] = False

    def __init__(self, message: str, *, tool: str | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.tool = tool
        self.field = field

    @property
    def message(self) -> str:
        """What is wrong, and what to do about it."""
        return str(self)

    def __reduce__(self) -> tuple[Callable[..., "SpindleError"], tuple[Any, ...]]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[SpindleError], args: tuple[Any, ...], facts: dict[str, Any]) -> SpindleError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


class UsageError(SpindleError):
    """The library was wired up wrongly."""

    code = "E_USAGE"
    fatal = True


class InvalidToolError(UsageError):
    """A tool was defined with a bad or missing value."""

    code = "E_INVALID_INITIAL_TOOL_VALUE"


class ToolAlreadyRegisteredError(UsageError):
    """Two tools claim one name, and nobody said which one wins; `existing` and `incoming` say where each comes from."""

    code = "E_TOOL_ALREADY_REGISTERED"
    status = 409

    def __init__(
        self, message: str, *, tool: str | None = None, existing: str | None = None, incoming: str | None = None
    ) -> None:
        super().__init__(message, tool=tool)
        self.existing = existing
        self.incoming = incoming


class UnknownToolError(UsageError):
    """No tool of the registry has that name."""

    code = "E_UNKNOWN_TOOL"
    status = 404


class InvalidToolFilterError(UsageError):
    """A filter was made of a bad value, or something that is no filter was given as one."""

    code = "E_INVALID_TOOL_FILTER"


class UnknownEventError(UsageError):
    """No event of that name is ever emitted."""

    code = "E_UNKNOWN_EVENT"


class InvalidContextError(UsageError):
    """Something that is no context was given as one."""

    code = "E_INVALID_CONTEXT"


class InvalidStashError(UsageError):
    """A stash cannot be made of that, or cannot be asked that."""

    code = "E_INVALID_INITIAL_REGISTRY_VALUE"


class InvalidMediaError(UsageError):
    """Media was described with a bad or missing value; `fields` names every one of them, `field` the first."""

    code = "E_INVALID_INITIAL_MEDIA_VALUE"

    def __init__(self, message: str, *, fields: Sequence[str] = ()) -> None:
        super().__init__(message, field=fields[0] if fields else None)
        self.fields = tuple(fields)


class NotASpoolReaderError(UsageError):
    """An artifact was given something that cannot be read line by line."""

    code = "E_NOT_A_SPOOL_READER"


class InvalidArtifactError(UsageError):
    """An artifact's content is not what its class reads."""

    code = "E_INVALID_ARTIFACT"


class InvalidToolCallRecordError(UsageError):
    """A record of a call was made with a bad or missing value."""

    code = "E_INVALID_INITIAL_TOOL_CALL_VALUE"


class InvalidRecordError(UsageError):
    """A turn cannot keep that as a record; `fields` names every bad value, `field` the first."""

    code = "E_INVALID_RECORD"

    def __init__(self, message: str, *, fields: Sequence[str] = ()) -> None:
        super().__init__(message, field=fields[0] if fields else None)
        self.fields = tuple(fields)


class InvalidMessageError(InvalidRecordError):
    """A message was made with a bad value."""

    code = "E_INVALID_INITIAL_MESSAGE_VALUE"


class InvalidThoughtError(InvalidRecordError):
    """A thought was made with a bad value."""

    code = "E_INVALID_INITIAL_THOUGHT_VALUE"


class InvalidMemoryError(InvalidRecordError):
    """A memory was made with a bad value."""

    code = "E_INVALID_INITIAL_MEMORY_VALUE"


class InvalidRetrievableError(InvalidRecordError):
    """A retrievable was made with a bad value."""

    code = "E_INVALID_INITIAL_RETRIEVABLE_VALUE"


class ArtifactIdCollisionError(UsageError):
    """Two results of one turn share an id."""

    code = "E_ARTIFACT_ID_COLLISION"
    status = 409


class InvalidBudgetError(UsageError):
    """A budget was made of two units, or of a number that leaves no room."""

    code = "E_INVALID_BUDGET"


class InvalidReducerError(UsageError):
    """A reducer has a bad or missing part."""

    code = "E_INVALID_REDUCER"


class ReducerAlreadyRegisteredError(UsageError):
    """Two reducers claim one tool; `existing` and `incoming` name them."""

    code = "E_REDUCER_ALREADY_REGISTERED"
    status = 409

    def __init__(
        self, message: str, *, tool: str | None = None, existing: str | None = None, incoming: str | None = None
    ) -> None:
        super().__init__(message, tool=tool)
        self.existing = existing
        self.incoming = incoming


class InvalidTurnRunnerConfigError(UsageError):
    """A runner was wired up wrongly; every bad setting is named."""

    code = "E_INVALID_TURN_RUNNER_CONFIG"
    status = 529


class InvalidTurnContextError(UsageError):
    """A turn was started with a bad value."""

    code = "E_INVALID_TURN_CONTEXT"
    status = 529


class InvalidDispatchContextError(UsageError):
    """A dispatch context was made with a bad value."""

    code = "E_INVALID_LLM_EXECUTION_CONTEXT"
    status = 529


class InvalidDispatchInputError(UsageError):
    """A dispatch was given none or two things to start from."""

    code = "E_INVALID_LLM_DISPATCH_INPUT"
    status = 529


class AlreadySignalledError(UsageError):
    """A dispatch was acknowledged or refused a second time; the first signal stands."""

    code = "E_LLM_EXECUTION_ALREADY_SIGNALLED"


class InvalidGateError(UsageError):
    """A gate was made with a bad value, or cannot be waited for here."""

    code = "E_INVALID_INITIAL_TURN_GATE_VALUE"


class InvalidGateResolutionError(UsageError):
    """A gate was settled with a value it does not take, and stays open; `problems` says what is wrong."""

    code = "E_INVALID_TURN_GATE_RESOLUTION"

    def __init__(self, message: str, *, gate_id: str, field: str | None = None, problems: Sequence[Any] = ()) -> None:
        super().__init__(message, field=field)
        self.gate_id = gate_id
        self.problems = tuple(problems)


class UnknownGateError(UsageError):
    """No open gate has that id."""

    code = "E_UNKNOWN_TURN_GATE"
    status = 404

    def __init__(self, message: str, *, gate_id: str) -> None:
        super().__init__(message, field="id")
        self.gate_id = gate_id


class InvalidTrustError(UsageError):
    """A fence, a label or a sink policy was given a bad value."""

    code = "E_INVALID_TRUST"


class MissingExtraError(UsageError):
    """A feature needs a package that is not installed."""

    code = "E_MISSING_EXTRA"
    status = 501


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
        return _rebuild, (type(self), (text,), self.__dict__)

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


class RunError(SpindleError):
    """The turn cannot go on."""

    code = "E_RUN"


class MediaUnreadableError(RunError):
    """The content of media cannot be read: its source is gone, is no regular file, or gives no bytes."""

    code = "E_MEDIA_UNREADABLE"
    status = 502


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
    """The dispatch was refused without a reason of its own."""

    code = "E_LLM_EXECUTION_NACK"


class LimitError(RunError):
    """A turn went beyond a limit: iterations, repeats of one call, or time; `field` says which."""

    code = "E_TURN_LIMIT"


class TurnAbortedError(RunError):
    """A turn was aborted, so it has no answer."""

    code = "E_TURN_ABORTED"
    status = 499
