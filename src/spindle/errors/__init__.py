"""The error tree: every error that Spindle raises on purpose, sorted by who must act.

SpindleError
├── UsageError                        the developer must act; raised during setup
│   ├── InvalidToolError                  a tool was defined with an invalid or missing value
│   ├── ToolAlreadyRegisteredError        two tools have the same name
│   ├── UnknownToolError                  no tool of the registry has that name
│   ├── InvalidToolFilterError            a filter has an invalid value, or is not a filter
│   ├── UnknownEventError                 no event has that name
│   ├── InvalidContextError               the value passed as a context is not one, or has an invalid value
│   ├── InvalidStashError                 a stash cannot store a value, or a path is invalid
│   ├── InvalidMediaError                 media has an invalid or missing value
│   ├── NotASpoolReaderError              the reader passed to an artifact cannot be read
│   ├── InvalidArtifactError              an artifact's content is not in the format its class reads
│   ├── InvalidToolCallRecordError        a record of a call has an invalid or missing value
│   ├── InvalidRecordError                a record of a turn has an invalid value
│   │   ├── InvalidMessageError               a message has an invalid value
│   │   ├── InvalidThoughtError               a thought has an invalid value
│   │   ├── InvalidMemoryError                a memory has an invalid value
│   │   └── InvalidRetrievableError           a retrievable has an invalid value
│   ├── ArtifactIdCollisionError          two results of one turn have the same id
│   ├── InvalidBudgetError                a budget has two units, or a size below 1
│   ├── InvalidReducerError               a reducer has an invalid or missing attribute
│   ├── ReducerAlreadyRegisteredError     two reducers are registered for one tool
│   ├── InvalidTrustError                 a fence, a trust label or a sink policy has an invalid value
│   ├── InvalidTurnRunnerConfigError      a runner has invalid settings
│   ├── InvalidTurnContextError           a turn was started with an invalid value
│   ├── InvalidDispatchContextError       a dispatch context has an invalid value
│   ├── InvalidDispatchInputError         a dispatch has no input, or two inputs
│   ├── AlreadySignalledError             a dispatch was acked or nacked twice
│   ├── InvalidGateError                  a gate has an invalid value, or cannot be waited for here
│   ├── InvalidGateResolutionError        a gate was resolved with a value that does not match its schema
│   ├── UnknownGateError                  no open gate has that id
│   ├── UnsupportedMediaError             a model does not accept that media
│   ├── InvalidConfigError                a configuration is invalid
│   ├── UntrustedConfigError              a configuration was found, and the user has not accepted it
│   ├── CommandError                      the `spindle` command failed
│   ├── CannotLowerError                  a dialect cannot express a tool's schema
│   ├── NameClashError                    two tools of one list would have the same name on the wire
│   ├── TooManyToolsError                 a list has more tools than the dialect allows
│   ├── InvalidServerSpecError            the description of an MCP server has an invalid or missing value
│   ├── InvalidLockError                  a lock file cannot be read or written, or was edited by hand
│   ├── UnknownServerError                no MCP server has that name
│   ├── UnknownFeatureError               no MCP server offers that prompt or resource here
│   ├── InvalidOpenApiError               an OpenAPI description cannot be used
│   ├── InvalidRequestError               a request to the API of the server has an invalid value
│   │   ├── PageLoginError                    its sender is not logged in
│   │   ├── RequestForbiddenError             it lacks a role, or the token of its page
│   │   ├── UnknownItemError                  it names something that does not exist
│   │   └── RequestConflictError              it cannot be carried out any more
│   └── MissingExtraError                 a feature requires a package that is not installed
├── CallError                         the model must act; becomes an Err
│   ├── InvalidToolArgsError              arguments do not match the schema
│   ├── NotCanonicalError                 a value cannot be serialized as canonical JSON
│   ├── ToolDownstreamError               the handler raised
│   │   └── HandlerFailedError                the handler's exception cannot be re-raised here
│   ├── ToolTimeoutError                  a call took too long and was cancelled
│   ├── ToolNotAvailableError             a tool may not be used here
│   ├── ApprovalDeniedError               a call was not approved
│   ├── ApprovalRequiredError             a call needs approval, and no approver is configured
│   ├── WorkerDiedError                   the worker process of a call ended without a result
│   ├── NotSendableError                  a value cannot be sent from a worker process
│   ├── EngineMessageError                a call or its result cannot cross to or from the worker of an engine
│   ├── CapabilityError                   a capability was used that was not declared or granted
│   │   ├── PathNotReachableError             a path is outside the files that the call may access
│   │   ├── CommandNotAllowedError            the tool may not run that command or shell line
│   │   ├── SandboxUnavailableError           a required sandbox is not available on this machine
│   │   ├── ProcessStartError                 an allowed command did not start
│   │   │   ├── ProgramNotFoundError              no program has that name
│   │   │   ├── ProgramNotExecutableError         the file with that name cannot be executed
│   │   │   └── ArgumentsTooLongError             the arguments exceed the system's limit
│   │   ├── HostNotAllowedError               the tool may not connect to that host or address
│   │   └── UnknownAttachmentError            no attachment of the turn has that id
│   ├── NetworkError                      a request to an allowed host failed
│   ├── StaleWriteError                   a file was changed since it was read
│   ├── FileAccessError                   an operation on an accessible file failed
│   │   └── FileMissingError                  the file does not exist
│   ├── SecretError                       a declared secret is not available
│   ├── StorageError                      a value cannot be stored or read
│   │   └── StorageQuotaError                 a write would exceed the tool's storage quota
│   ├── UnshowableRequestError            the arguments of a call cannot be shown to a person for approval
│   ├── ArtifactGoneError                 the content of an artifact was deleted
│   └── ArtifactQueryError                a query of an artifact is invalid or cannot be answered
└── RunError                          the caller must act; the turn stops
    ├── SpoolError                        the spool of large outputs failed
    ├── EngineUnavailableError            a durable engine cannot be reached
    ├── JournalError                      the journal of calls cannot be written or read
    │   ├── JournalLockedError                another process has locked the journal
    │   └── JournalDamagedError               a journal file is damaged
    ├── PipelineError                     middleware failed
    │   ├── InputPipelineError                before the dispatch
    │   ├── OutputPipelineError               after the dispatch
    │   ├── DispatchPipelineError             inside the dispatch
    │   └── PipelineShortCircuitedError       middleware returned without calling next
    ├── ExecutorCallbackError             the executor callback failed
    ├── ModelUnavailableError             a model API returned no complete response
    ├── ContextOverflowError              a prompt does not fit into the model's context window
    ├── BrokenAnswerError                 one response of a model API is truncated or invalid; may be retried
    ├── ModelStoppedError                 a model stopped before its answer was complete
    ├── NackError                         the dispatch was nacked with a text, or without a reason
    ├── LimitError                        a turn exceeded a limit
    ├── TurnAbortedError                  a turn was aborted
    ├── TurnSuspendedError                a turn was suspended and has no answer yet
    ├── TurnConflictError                 another process has continued the turn
    ├── TurnFailedError                   a turn failed on a worker of an engine
    ├── InvalidTurnStateError             the state of a suspended turn cannot be resumed
    ├── InvalidAnswersError               the answers do not fit the suspended turn
    ├── UnsavableTurnError                a turn has a part that is not JSON
    ├── RecordsError                      the store of a turn's records failed
    ├── GateTimeoutError                  a gate was not resolved in time
    ├── GateAbortedError                  a gate or its turn was aborted
    ├── UpstreamError                     an MCP server cannot be used
    │   ├── UpstreamRefusedError              a server answered a request for a prompt or resource with an error
    │   ├── UpstreamRequiredError             a required MCP server cannot be used
    │   └── LoginRequiredError                a user has no valid login at an MCP server
    ├── OAuthError                        an authorization server cannot be used
    ├── MediaUnreadableError              the content of media cannot be read
    └── GateNotSupportedError             gates cannot be resolved in this context
        └── ClientCapabilityError             the MCP client did not declare a feature that a tool requested
"""

from spindle.errors.base import SpindleError as SpindleError
from spindle.errors.call import ApprovalDeniedError as ApprovalDeniedError
from spindle.errors.call import ApprovalRequiredError as ApprovalRequiredError
from spindle.errors.call import ArgumentsTooLongError as ArgumentsTooLongError
from spindle.errors.call import ArtifactGoneError as ArtifactGoneError
from spindle.errors.call import ArtifactQueryError as ArtifactQueryError
from spindle.errors.call import CallError as CallError
from spindle.errors.call import CapabilityError as CapabilityError
from spindle.errors.call import CommandNotAllowedError as CommandNotAllowedError
from spindle.errors.call import EngineMessageError as EngineMessageError
from spindle.errors.call import FileAccessError as FileAccessError
from spindle.errors.call import FileMissingError as FileMissingError
from spindle.errors.call import HandlerFailedError as HandlerFailedError
from spindle.errors.call import HostNotAllowedError as HostNotAllowedError
from spindle.errors.call import InvalidToolArgsError as InvalidToolArgsError
from spindle.errors.call import NetworkError as NetworkError
from spindle.errors.call import NotCanonicalError as NotCanonicalError
from spindle.errors.call import NotSendableError as NotSendableError
from spindle.errors.call import PathNotReachableError as PathNotReachableError
from spindle.errors.call import ProcessStartError as ProcessStartError
from spindle.errors.call import ProgramNotExecutableError as ProgramNotExecutableError
from spindle.errors.call import ProgramNotFoundError as ProgramNotFoundError
from spindle.errors.call import SandboxUnavailableError as SandboxUnavailableError
from spindle.errors.call import SecretError as SecretError
from spindle.errors.call import StaleWriteError as StaleWriteError
from spindle.errors.call import StorageError as StorageError
from spindle.errors.call import StorageQuotaError as StorageQuotaError
from spindle.errors.call import ToolDownstreamError as ToolDownstreamError
from spindle.errors.call import ToolNotAvailableError as ToolNotAvailableError
from spindle.errors.call import ToolTimeoutError as ToolTimeoutError
from spindle.errors.call import UnknownAttachmentError as UnknownAttachmentError
from spindle.errors.call import UnshowableRequestError as UnshowableRequestError
from spindle.errors.call import WorkerDiedError as WorkerDiedError
from spindle.errors.run import BrokenAnswerError as BrokenAnswerError
from spindle.errors.run import ClientCapabilityError as ClientCapabilityError
from spindle.errors.run import ContextOverflowError as ContextOverflowError
from spindle.errors.run import DispatchPipelineError as DispatchPipelineError
from spindle.errors.run import EngineUnavailableError as EngineUnavailableError
from spindle.errors.run import ExecutorCallbackError as ExecutorCallbackError
from spindle.errors.run import GateAbortedError as GateAbortedError
from spindle.errors.run import GateNotSupportedError as GateNotSupportedError
from spindle.errors.run import GateTimeoutError as GateTimeoutError
from spindle.errors.run import InputPipelineError as InputPipelineError
from spindle.errors.run import InvalidAnswersError as InvalidAnswersError
from spindle.errors.run import InvalidTurnStateError as InvalidTurnStateError
from spindle.errors.run import JournalDamagedError as JournalDamagedError
from spindle.errors.run import JournalError as JournalError
from spindle.errors.run import JournalLockedError as JournalLockedError
from spindle.errors.run import LimitError as LimitError
from spindle.errors.run import LoginRequiredError as LoginRequiredError
from spindle.errors.run import MediaUnreadableError as MediaUnreadableError
from spindle.errors.run import ModelStoppedError as ModelStoppedError
from spindle.errors.run import ModelUnavailableError as ModelUnavailableError
from spindle.errors.run import NackError as NackError
from spindle.errors.run import OAuthError as OAuthError
from spindle.errors.run import OutputPipelineError as OutputPipelineError
from spindle.errors.run import PipelineError as PipelineError
from spindle.errors.run import PipelineShortCircuitedError as PipelineShortCircuitedError
from spindle.errors.run import RecordsError as RecordsError
from spindle.errors.run import RunError as RunError
from spindle.errors.run import SpoolError as SpoolError
from spindle.errors.run import TurnAbortedError as TurnAbortedError
from spindle.errors.run import TurnConflictError as TurnConflictError
from spindle.errors.run import TurnFailedError as TurnFailedError
from spindle.errors.run import TurnSuspendedError as TurnSuspendedError
from spindle.errors.run import UnsavableTurnError as UnsavableTurnError
from spindle.errors.run import UpstreamError as UpstreamError
from spindle.errors.run import UpstreamRefusedError as UpstreamRefusedError
from spindle.errors.run import UpstreamRequiredError as UpstreamRequiredError
from spindle.errors.usage import AlreadySignalledError as AlreadySignalledError
from spindle.errors.usage import ArtifactIdCollisionError as ArtifactIdCollisionError
from spindle.errors.usage import CannotLowerError as CannotLowerError
from spindle.errors.usage import CommandError as CommandError
from spindle.errors.usage import InvalidArtifactError as InvalidArtifactError
from spindle.errors.usage import InvalidBudgetError as InvalidBudgetError
from spindle.errors.usage import InvalidConfigError as InvalidConfigError
from spindle.errors.usage import InvalidContextError as InvalidContextError
from spindle.errors.usage import InvalidDispatchContextError as InvalidDispatchContextError
from spindle.errors.usage import InvalidDispatchInputError as InvalidDispatchInputError
from spindle.errors.usage import InvalidGateError as InvalidGateError
from spindle.errors.usage import InvalidGateResolutionError as InvalidGateResolutionError
from spindle.errors.usage import InvalidLockError as InvalidLockError
from spindle.errors.usage import InvalidMediaError as InvalidMediaError
from spindle.errors.usage import InvalidMemoryError as InvalidMemoryError
from spindle.errors.usage import InvalidMessageError as InvalidMessageError
from spindle.errors.usage import InvalidOpenApiError as InvalidOpenApiError
from spindle.errors.usage import InvalidRecordError as InvalidRecordError
from spindle.errors.usage import InvalidReducerError as InvalidReducerError
from spindle.errors.usage import InvalidRequestError as InvalidRequestError
from spindle.errors.usage import InvalidRetrievableError as InvalidRetrievableError
from spindle.errors.usage import InvalidServerSpecError as InvalidServerSpecError
from spindle.errors.usage import InvalidStashError as InvalidStashError
from spindle.errors.usage import InvalidThoughtError as InvalidThoughtError
from spindle.errors.usage import InvalidToolCallRecordError as InvalidToolCallRecordError
from spindle.errors.usage import InvalidToolError as InvalidToolError
from spindle.errors.usage import InvalidToolFilterError as InvalidToolFilterError
from spindle.errors.usage import InvalidTrustError as InvalidTrustError
from spindle.errors.usage import InvalidTurnContextError as InvalidTurnContextError
from spindle.errors.usage import InvalidTurnRunnerConfigError as InvalidTurnRunnerConfigError
from spindle.errors.usage import MissingExtraError as MissingExtraError
from spindle.errors.usage import NameClashError as NameClashError
from spindle.errors.usage import NotASpoolReaderError as NotASpoolReaderError
from spindle.errors.usage import PageLoginError as PageLoginError
from spindle.errors.usage import ReducerAlreadyRegisteredError as ReducerAlreadyRegisteredError
from spindle.errors.usage import RequestConflictError as RequestConflictError
from spindle.errors.usage import RequestForbiddenError as RequestForbiddenError
from spindle.errors.usage import ToolAlreadyRegisteredError as ToolAlreadyRegisteredError
from spindle.errors.usage import TooManyToolsError as TooManyToolsError
from spindle.errors.usage import UnknownEventError as UnknownEventError
from spindle.errors.usage import UnknownFeatureError as UnknownFeatureError
from spindle.errors.usage import UnknownGateError as UnknownGateError
from spindle.errors.usage import UnknownItemError as UnknownItemError
from spindle.errors.usage import UnknownServerError as UnknownServerError
from spindle.errors.usage import UnknownToolError as UnknownToolError
from spindle.errors.usage import UnsupportedMediaError as UnsupportedMediaError
from spindle.errors.usage import UntrustedConfigError as UntrustedConfigError
from spindle.errors.usage import UsageError as UsageError
