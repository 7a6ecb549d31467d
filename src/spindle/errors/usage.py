"""Errors that the developer must act on: the library was configured or called incorrectly."""

from collections.abc import Sequence
from typing import Any

from spindle.errors.base import SpindleError


class UsageError(SpindleError):
    """The library was configured or called incorrectly."""

    code = "E_USAGE"
    fatal = True


class InvalidToolError(UsageError):
    """A tool was defined with an invalid or missing value."""

    code = "E_INVALID_INITIAL_TOOL_VALUE"


class ToolAlreadyRegisteredError(UsageError):
    """Two tools have the same name and no collision policy applies; `existing` and `incoming` are their origins."""

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
    """A filter has an invalid value, or the value passed as a filter is not one."""

    code = "E_INVALID_TOOL_FILTER"


class UnknownEventError(UsageError):
    """No event has that name."""

    code = "E_UNKNOWN_EVENT"


class InvalidContextError(UsageError):
    """The value passed as a context is not one, or a context has an invalid value."""

    code = "E_INVALID_CONTEXT"


class InvalidStashError(UsageError):
    """A stash cannot store a value, or a stash path is invalid."""

    code = "E_INVALID_INITIAL_REGISTRY_VALUE"


class InvalidMediaError(UsageError):
    """Media has invalid or missing values; `fields` names all of them, `field` the first."""

    code = "E_INVALID_INITIAL_MEDIA_VALUE"

    def __init__(self, message: str, *, fields: Sequence[str] = ()) -> None:
        super().__init__(message, field=fields[0] if fields else None)
        self.fields = tuple(fields)


class NotASpoolReaderError(UsageError):
    """The reader passed to an artifact cannot be read line by line."""

    code = "E_NOT_A_SPOOL_READER"


class InvalidArtifactError(UsageError):
    """The content of an artifact is not in the format its class reads."""

    code = "E_INVALID_ARTIFACT"


class InvalidToolCallRecordError(UsageError):
    """A record of a call has an invalid or missing value."""

    code = "E_INVALID_INITIAL_TOOL_CALL_VALUE"


class InvalidRecordError(UsageError):
    """A record of a turn has invalid values; `fields` names all of them, `field` the first."""

    code = "E_INVALID_RECORD"

    def __init__(self, message: str, *, fields: Sequence[str] = ()) -> None:
        super().__init__(message, field=fields[0] if fields else None)
        self.fields = tuple(fields)


class InvalidMessageError(InvalidRecordError):
    """A message has an invalid value."""

    code = "E_INVALID_INITIAL_MESSAGE_VALUE"


class InvalidThoughtError(InvalidRecordError):
    """A thought has an invalid value."""

    code = "E_INVALID_INITIAL_THOUGHT_VALUE"


class InvalidMemoryError(InvalidRecordError):
    """A memory has an invalid value."""

    code = "E_INVALID_INITIAL_MEMORY_VALUE"


class InvalidRetrievableError(InvalidRecordError):
    """A retrievable has an invalid value."""

    code = "E_INVALID_INITIAL_RETRIEVABLE_VALUE"


class ArtifactIdCollisionError(UsageError):
    """Two results of one turn have the same id."""

    code = "E_ARTIFACT_ID_COLLISION"
    status = 409


class InvalidBudgetError(UsageError):
    """A budget has two units, or a size below 1."""

    code = "E_INVALID_BUDGET"


class InvalidReducerError(UsageError):
    """A reducer has an invalid or missing attribute."""

    code = "E_INVALID_REDUCER"


class ReducerAlreadyRegisteredError(UsageError):
    """Two reducers are registered for one tool; `existing` and `incoming` name them."""

    code = "E_REDUCER_ALREADY_REGISTERED"
    status = 409

    def __init__(
        self, message: str, *, tool: str | None = None, existing: str | None = None, incoming: str | None = None
    ) -> None:
        super().__init__(message, tool=tool)
        self.existing = existing
        self.incoming = incoming


class InvalidTurnRunnerConfigError(UsageError):
    """A runner has invalid settings; the message names all of them."""

    code = "E_INVALID_TURN_RUNNER_CONFIG"
    status = 529


class InvalidTurnContextError(UsageError):
    """A turn was started with an invalid value."""

    code = "E_INVALID_TURN_CONTEXT"
    status = 529


class InvalidDispatchContextError(UsageError):
    """A dispatch context has an invalid value."""

    code = "E_INVALID_LLM_EXECUTION_CONTEXT"
    status = 529


class InvalidDispatchInputError(UsageError):
    """A dispatch has no input or two inputs, or an invalid setting."""

    code = "E_INVALID_LLM_DISPATCH_INPUT"
    status = 529


class AlreadySignalledError(UsageError):
    """A dispatch was acked or nacked a second time; the first signal stays in effect."""

    code = "E_LLM_EXECUTION_ALREADY_SIGNALLED"


class InvalidGateError(UsageError):
    """A gate has an invalid value, or cannot be waited for in this context."""

    code = "E_INVALID_INITIAL_TURN_GATE_VALUE"


class InvalidGateResolutionError(UsageError):
    """A gate was resolved with a value that does not match its schema; it stays open, `problems` lists the reasons."""

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
    """A fence, a trust label or a sink policy has an invalid value."""

    code = "E_INVALID_TRUST"


class InvalidConfigError(UsageError):
    """A configuration is invalid; `problems` has one line per problem, `field` is the first invalid key."""

    code = "E_INVALID_CONFIG"

    def __init__(
        self, message: str, *, path: str | None = None, field: str | None = None, problems: Sequence[str] = ()
    ) -> None:
        super().__init__(message, field=field)
        self.path = path
        self.problems = tuple(problems) or (message,)


class UntrustedConfigError(UsageError):
    """A configuration was found in the working folder or above it, and the user has not accepted it as it is."""

    code = "E_UNTRUSTED_CONFIG"

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class CommandError(UsageError):
    """The `spindle` command failed; `exit_code` is its exit code, `hint` what to do."""

    code = "E_COMMAND"

    def __init__(self, message: str, *, exit_code: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.hint = hint


class CannotLowerError(UsageError):
    """A dialect cannot express a tool's schema; `path` is the location, `why` the reason."""

    code = "E_CANNOT_LOWER"

    def __init__(
        self, message: str, *, tool: str | None = None, dialect: str | None = None, path: str = "", why: str = ""
    ) -> None:
        super().__init__(message, tool=tool, field="input_schema")
        self.dialect = dialect
        self.path = path
        self.why = why


class NameClashError(UsageError):
    """Two tools of one list would have the same name on the wire; `wire_name` is the name, `tools` are both tools."""

    code = "E_NAME_CLASH"
    status = 409

    def __init__(
        self, message: str, *, tool: str | None = None, wire_name: str = "", tools: Sequence[str] = ()
    ) -> None:
        super().__init__(message, tool=tool, field="name")
        self.wire_name = wire_name
        self.tools = tuple(tools)


class TooManyToolsError(UsageError):
    """A list has more tools than the dialect allows."""

    code = "E_TOO_MANY_TOOLS"

    def __init__(self, message: str, *, dialect: str | None = None, count: int = 0, max_tools: int = 0) -> None:
        super().__init__(message, field="tools")
        self.dialect = dialect
        self.count = count
        self.max_tools = max_tools


class InvalidServerSpecError(UsageError):
    """The description of an MCP server has an invalid or missing value; `server` and `field` locate it."""

    code = "E_INVALID_MCP_SERVER"

    def __init__(self, message: str, *, server: str | None = None, field: str | None = None) -> None:
        super().__init__(message, field=field)
        self.server = server


class InvalidLockError(UsageError):
    """A lock file cannot be read or written, has another format, or was edited by hand; `path` is the file."""

    code = "E_INVALID_LOCK"

    def __init__(self, message: str, *, path: str, field: str | None = None) -> None:
        super().__init__(message, field=field)
        self.path = path


class UnknownServerError(UsageError):
    """No MCP server has that name."""

    code = "E_UNKNOWN_MCP_SERVER"
    status = 404

    def __init__(self, message: str, *, server: str) -> None:
        super().__init__(message, field="name")
        self.server = server


class UnknownFeatureError(UsageError):
    """No MCP server offers a prompt or resource of that name here."""

    code = "E_UNKNOWN_FEATURE"
    status = 404

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message, field="name")
        self.name = name


class InvalidOpenApiError(UsageError):
    """An OpenAPI description, or one of its operations, cannot be used."""

    code = "E_INVALID_OPENAPI"


class InvalidRequestError(UsageError):
    """A request to the API of the server has an invalid value, or cannot be answered."""

    code = "E_INVALID_REQUEST"
    status = 400


class PageLoginError(InvalidRequestError):
    """A request to the API of the server comes from a sender that is not logged in."""

    code = "E_PAGE_LOGIN"
    status = 401


class RequestForbiddenError(InvalidRequestError):
    """A request to the API of the server lacks a role, or the token of its page."""

    code = "E_REQUEST_FORBIDDEN"
    status = 403


class UnknownItemError(InvalidRequestError):
    """A request to the API of the server names something that does not exist."""

    code = "E_UNKNOWN_ITEM"
    status = 404


class RequestConflictError(InvalidRequestError):
    """A request to the API of the server cannot be carried out any more, such as an approval that was answered."""

    code = "E_REQUEST_CONFLICT"
    status = 409


class MissingExtraError(UsageError):
    """A feature requires a package that is not installed."""

    code = "E_MISSING_EXTRA"
    status = 501


class UnsupportedMediaError(UsageError):
    """A model does not accept that media, and no fallback was configured."""

    code = "E_UNSUPPORTED_MEDIA"
    status = 415
