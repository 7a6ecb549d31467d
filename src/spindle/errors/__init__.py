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
│   ├── UnsupportedMediaError             a model cannot be given that media
│   ├── InvalidConfigError                a configuration cannot be used
│   ├── CommandError                      the `spindle` command cannot do what it was asked
│   ├── CannotLowerError                  a dialect cannot take a tool's schema at all
│   ├── NameClashError                    two tools of one list would have one name on the wire
│   ├── TooManyToolsError                 a list holds more tools than the dialect takes
│   ├── InvalidServerSpecError            an MCP server was described with a bad or missing value
│   ├── UnknownServerError                a name that no MCP server has
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
    ├── ModelUnavailableError             a model's server gave no whole answer
    ├── BrokenAnswerError                 one answer of a model's server is none; asked again where that may help
    ├── ModelStoppedError                 a model ended its answer before it was one
    ├── NackError                         the dispatch was refused without a reason
    ├── LimitError                        a turn went beyond a limit
    ├── TurnAbortedError                  a turn was aborted
    ├── RecordsError                      the place where records are kept failed
    ├── GateTimeoutError                  nobody settled a gate in time
    ├── GateAbortedError                  a gate was given up, or its turn was
    ├── UpstreamError                     an MCP server cannot be used
    │   └── UpstreamRequiredError             one that is required
    ├── MediaUnreadableError              the content of media cannot be read
    └── GateNotSupportedError             nobody here can answer a gate
        └── ClientCapabilityError             an MCP client did not declare what a tool asks it for
"""

from spindle.errors.base import SpindleError as SpindleError
from spindle.errors.call import ArgumentsTooLongError as ArgumentsTooLongError
from spindle.errors.call import ArtifactGoneError as ArtifactGoneError
from spindle.errors.call import ArtifactQueryError as ArtifactQueryError
from spindle.errors.call import CallError as CallError
from spindle.errors.call import CapabilityError as CapabilityError
from spindle.errors.call import CommandNotAllowedError as CommandNotAllowedError
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
from spindle.errors.call import UnknownAttachmentError as UnknownAttachmentError
from spindle.errors.call import WorkerDiedError as WorkerDiedError
from spindle.errors.run import BrokenAnswerError as BrokenAnswerError
from spindle.errors.run import ClientCapabilityError as ClientCapabilityError
from spindle.errors.run import DispatchPipelineError as DispatchPipelineError
from spindle.errors.run import ExecutorCallbackError as ExecutorCallbackError
from spindle.errors.run import GateAbortedError as GateAbortedError
from spindle.errors.run import GateNotSupportedError as GateNotSupportedError
from spindle.errors.run import GateTimeoutError as GateTimeoutError
from spindle.errors.run import InputPipelineError as InputPipelineError
from spindle.errors.run import JournalDamagedError as JournalDamagedError
from spindle.errors.run import JournalError as JournalError
from spindle.errors.run import JournalLockedError as JournalLockedError
from spindle.errors.run import LimitError as LimitError
from spindle.errors.run import MediaUnreadableError as MediaUnreadableError
from spindle.errors.run import ModelStoppedError as ModelStoppedError
from spindle.errors.run import ModelUnavailableError as ModelUnavailableError
from spindle.errors.run import NackError as NackError
from spindle.errors.run import OutputPipelineError as OutputPipelineError
from spindle.errors.run import PipelineError as PipelineError
from spindle.errors.run import PipelineShortCircuitedError as PipelineShortCircuitedError
from spindle.errors.run import RecordsError as RecordsError
from spindle.errors.run import RunError as RunError
from spindle.errors.run import SpoolError as SpoolError
from spindle.errors.run import TurnAbortedError as TurnAbortedError
from spindle.errors.run import UpstreamError as UpstreamError
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
from spindle.errors.usage import InvalidMediaError as InvalidMediaError
from spindle.errors.usage import InvalidMemoryError as InvalidMemoryError
from spindle.errors.usage import InvalidMessageError as InvalidMessageError
from spindle.errors.usage import InvalidRecordError as InvalidRecordError
from spindle.errors.usage import InvalidReducerError as InvalidReducerError
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
from spindle.errors.usage import ReducerAlreadyRegisteredError as ReducerAlreadyRegisteredError
from spindle.errors.usage import ToolAlreadyRegisteredError as ToolAlreadyRegisteredError
from spindle.errors.usage import TooManyToolsError as TooManyToolsError
from spindle.errors.usage import UnknownEventError as UnknownEventError
from spindle.errors.usage import UnknownGateError as UnknownGateError
from spindle.errors.usage import UnknownServerError as UnknownServerError
from spindle.errors.usage import UnknownToolError as UnknownToolError
from spindle.errors.usage import UnsupportedMediaError as UnsupportedMediaError
from spindle.errors.usage import UsageError as UsageError
