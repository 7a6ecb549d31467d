"""The developer must act: the library was wired up wrongly."""

from collections.abc import Sequence
from typing import Any

from spindle.errors.base import SpindleError


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
    """A dispatch was given none or two things to start from, or a setting that it cannot use."""

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


class InvalidConfigError(UsageError):
    """A configuration cannot be used; `problems` has one line for each thing that is wrong, `field` the first key."""

    code = "E_INVALID_CONFIG"

    def __init__(
        self, message: str, *, path: str | None = None, field: str | None = None, problems: Sequence[str] = ()
    ) -> None:
        super().__init__(message, field=field)
        self.path = path
        self.problems = tuple(problems) or (message,)


class CommandError(UsageError):
    """The `spindle` command cannot do what it was asked; `exit_code` says how it ends, `hint` what to do."""

    code = "E_COMMAND"

    def __init__(self, message: str, *, exit_code: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.hint = hint


class CannotLowerError(UsageError):
    """A dialect cannot take a tool's schema at all; `path` says where, `why` what stands in the way."""

    code = "E_CANNOT_LOWER"

    def __init__(
        self, message: str, *, tool: str | None = None, dialect: str | None = None, path: str = "", why: str = ""
    ) -> None:
        super().__init__(message, tool=tool, field="input_schema")
        self.dialect = dialect
        self.path = path
        self.why = why


class NameClashError(UsageError):
    """Two tools of one list would have the same name on the wire; `wire_name` is that name, `tools` are both."""

    code = "E_NAME_CLASH"
    status = 409

    def __init__(
        self, message: str, *, tool: str | None = None, wire_name: str = "", tools: Sequence[str] = ()
    ) -> None:
        super().__init__(message, tool=tool, field="name")
        self.wire_name = wire_name
        self.tools = tuple(tools)


class TooManyToolsError(UsageError):
    """A list holds more tools than the dialect takes."""

    code = "E_TOO_MANY_TOOLS"

    def __init__(self, message: str, *, dialect: str | None = None, count: int = 0, max_tools: int = 0) -> None:
        super().__init__(message, field="tools")
        self.dialect = dialect
        self.count = count
        self.max_tools = max_tools


class InvalidServerSpecError(UsageError):
    """An MCP server was described with a bad or missing value; `server` and `field` say where."""

    code = "E_INVALID_MCP_SERVER"

    def __init__(self, message: str, *, server: str | None = None, field: str | None = None) -> None:
        super().__init__(message, field=field)
        self.server = server


class UnknownServerError(UsageError):
    """No MCP server has that name."""

    code = "E_UNKNOWN_MCP_SERVER"
    status = 404

    def __init__(self, message: str, *, server: str) -> None:
        super().__init__(message, field="name")
        self.server = server


class MissingExtraError(UsageError):
    """A feature needs a package that is not installed."""

    code = "E_MISSING_EXTRA"
    status = 501


class UnsupportedMediaError(UsageError):
    """A model cannot be given that media, and nothing was said about what to do instead."""

    code = "E_UNSUPPORTED_MEDIA"
    status = 415
