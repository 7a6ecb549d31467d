"""Suggestions for calls of tools that do not exist, added after the other calls of their batch have run."""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial

from spindle.calls import Err
from spindle.concurrency import WorkerThreads
from spindle.execution.admission import AdmissionContext, build_unknown_message
from spindle.execution.call_state import CallState, RefusedCall
from spindle.execution.failures import redact_err
from spindle.execution.results import HandlerResult
from spindle.text import NameIndex, ask_if_meant, join_options
from spindle.tools.entry import Entry
from spindle.tools.filters import is_visible

_threads = WorkerThreads()
_MAX_SUGGESTIONS = 3
_MAX_QUICK_COMPARISONS = 200
"""More are made in a thread: one takes up to a tenth of a millisecond."""


async def suggest_names(states: Sequence[CallState], admission: AdmissionContext) -> None:
    """Add the closest visible tools to the error of each call whose tool does not exist."""
    unknown = [state for state in states if isinstance(state, RefusedCall) and state.is_unknown]
    if not unknown:
        return
    visible = tuple(entry.tool.name for entry in admission.registry.entries() if _is_visible(entry, admission))
    called = {state.call.name for state in unknown}
    find = partial(_find_hints, called, visible)
    is_quick = len(called) * len(visible) <= _MAX_QUICK_COMPARISONS
    hints = find() if is_quick else await _threads.run_abandonable(find)
    for state in unknown:
        text = build_unknown_message(state.call.name, hints[state.call.name])
        err = Err("not_available", text, field="name", by="spindle")
        state.replace_refusal(HandlerResult(redact_err(err, admission.redactor)))


def _find_hints(called: set[str], visible: tuple[str, ...]) -> Mapping[str, str]:
    index = _build_index(visible)
    known = f"the tools are: {join_options(map(repr, visible)) or 'none'}."
    return {name: ask_if_meant(index.find(name, count=_MAX_SUGGESTIONS), known) for name in called}


@lru_cache(maxsize=8)  # the same few lists of tools are asked for again and again
def _build_index(names: tuple[str, ...]) -> NameIndex:
    return NameIndex(names)


def _is_visible(entry: Entry, admission: AdmissionContext) -> bool:
    """Return whether `to_definitions` would list the tool; a tool whose check raises is not listed."""
    try:
        return is_visible(entry, admission.filter, admission.events)
    except BaseException:  # noqa: BLE001
        return False
