"""OpenTelemetry spans and metrics, and logs as JSON; open `spans.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.telemetry.logs import json_logs as json_logs
    from spindle.telemetry.logs import log_calls as log_calls
    from spindle.telemetry.metrics import observe_threads as observe_threads
    from spindle.telemetry.spans import telemetry as telemetry
    from spindle.telemetry.turns import trace_turns as trace_turns
else:
    __getattr__, __dir__ = open_door(__name__)
