"""OpenTelemetry spans and metrics, trace context over MCP, and logs as JSON; read `spans.py` first."""
