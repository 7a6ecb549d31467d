"""The refusals, in order: each is one small function, and the first that has something to say ends the call.

They run before anything is done, in the order of the batch. Whatever a guard raises refuses the call.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, cast

from spindle.calls import Call, Err
from spindle.capabilities.declare import NO_CAPABILITIES
from spindle.capabilities.resolve import Backends, unserved
from spindle.errors import InvalidToolArgsError, NotCanonicalError
from spindle.events import Events
from spindle.execution.failures import err_of
from spindle.execution.job import Job
from spindle.execution.repair import explained
from spindle.tools.arguments import read_arguments
from spindle.tools.availability import is_available
from spindle.tools.filters import ToolFilter, refusal
from spindle.tools.problems import listed, nearest, printable
from spindle.tools.registry import ToolRegistry
from spindle.tools.tool import runnable_of


class House(NamedTuple):
    """What the gates judge by: the same for every call of a batch."""

    registry: ToolRegistry
    filter: ToolFilter | None
    backends: Backends
    events: Events
    explain_repairs: bool = False


Gate: TypeAlias = Callable[[Job, House], Err | None]


def admit(job: Job, house: House) -> Err | None:
    """Take a call through every gate; gives the refusal of the first that does not let it pass."""
    for gate in GATES:
        try:
            refused = gate(job, house)
        except Exception as error:  # noqa: BLE001  a guard that raises refuses
            name = printable(str(job.call.name), 60)
            house.events.warn(f"a guard of {name!r} raised {type(error).__name__}", source=gate.__name__, error=error)
            return Err("not_available", f"The tool {name!r} cannot be used now: a check before it failed.", cause=error)
        if refused is not None:
            return refused
    return None


def is_a_call(job: Job, house: House) -> Err | None:  # noqa: ARG001
    """Refuse what is not a `Call` at all."""
    if isinstance(cast("object", job.call), Call) and isinstance(cast("object", job.call.name), str):
        return None
    return Err("input_invalid", "That is not a call: expected Call(tool_call_id, name, args).")


def is_known(job: Job, house: House) -> Err | None:
    """Refuse a name no tool has, and offer the closest one the caller may see."""
    entry = house.registry.entry(job.call.name)
    if entry is not None:
        job.entry = entry
        return None
    names = [each.tool.name for each in house.registry.entries() if _is_shown(each, house)]
    close = nearest(job.call.name, names)
    name = printable(job.call.name, 60)
    hint = f"did you mean {close!r}?" if close else f"the tools are: {listed(map(repr, names)) or 'none'}."
    return Err("not_available", f"There is no tool {name!r}; {hint}", field="name")


def _is_shown(entry: Any, house: House) -> bool:
    return not entry.hidden and refusal(entry, house.filter) is None and is_available(entry.tool)


def is_permitted(job: Job, house: House) -> Err | None:
    """Refuse what the caller's filter turns down."""
    refused = refusal(job.entry, house.filter)
    return None if refused is None else Err("not_available", refused.message)


def is_ready(job: Job, house: House) -> Err | None:
    """Refuse a tool that says it cannot be used now."""
    if is_available(job.entry.tool, house.events):
        return None
    return Err("not_available", f"The tool {job.call.name!r} is not available at the moment.", retryable=True)


def is_served(job: Job, house: House) -> Err | None:
    """Refuse a tool that needs what nobody serves here."""
    needs = job.entry.tool.capabilities
    lacking = None if needs is NO_CAPABILITIES else unserved(needs, house.backends)
    if not lacking:
        return None
    text = f"The tool {job.call.name!r} cannot be used here: it needs {listed(lacking)}, which nothing serves."
    return Err("not_available", text)


def is_well_formed(job: Job, house: House) -> Err | None:
    """Refuse arguments that are not what the schema says; nothing has run."""
    call, tool = job.call, job.entry.tool
    job.runnable = runnable = runnable_of(tool)
    schema = runnable.schema
    try:
        job.arguments = read_arguments(call.args, tool=tool.name, empty_ok=schema.takes_nothing())
        if isinstance(call.args, Mapping):
            _ = job.checksum  # a mapping may hold what JSON cannot, and then it has none
        job.value = schema.validator()(job.arguments, call.args)
    except (InvalidToolArgsError, NotCanonicalError) as error:
        refused = err_of(error, tool=tool.name)
        return explained(refused, call.args, schema) if house.explain_repairs else refused
    return None


GATES: tuple[Gate, ...] = (is_a_call, is_known, is_permitted, is_ready, is_served, is_well_formed)
