"""OpenTelemetry spans and metrics, and JSON logs; open `instrumentation.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.telemetry.instrumentation import telemetry as telemetry
    from spindle.telemetry.instrumentation import trace_turns as trace_turns
    from spindle.telemetry.logs import json_logs as json_logs
    from spindle.telemetry.logs import log_calls as log_calls
    from spindle.telemetry.logs import log_events as log_events
    from spindle.telemetry.metrics import observe_threads as observe_threads
    from spindle.telemetry.prometheus import CallMetrics as CallMetrics
    from spindle.telemetry.prometheus import Family as Family
    from spindle.telemetry.prometheus import render_metrics as render_metrics
else:
    __getattr__, __dir__ = open_door(__name__)
