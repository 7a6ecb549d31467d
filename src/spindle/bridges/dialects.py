"""The six dialects as data; a dialect's own module offers its one as `DIALECT`."""

from spindle.bridges import limits
from spindle.bridges.dialect import Dialect
from spindle.bridges.rules import Rules

OPENAI_CHAT = Dialect(name="openai_chat", limits=limits.OPENAI_CHAT, rules=Rules(), strict_rules=Rules())
OPENAI_RESPONSES = Dialect(name="openai_responses", limits=limits.OPENAI_RESPONSES, rules=Rules(), strict_rules=Rules())
ANTHROPIC = Dialect(name="anthropic", limits=limits.ANTHROPIC, rules=Rules(), strict_rules=Rules())
GEMINI = Dialect(name="gemini", limits=limits.GEMINI, rules=Rules())
BEDROCK = Dialect(name="bedrock", limits=limits.BEDROCK, rules=Rules())
MCP = Dialect(name="mcp", limits=limits.MCP, rules=Rules())

ALL = (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI, BEDROCK, MCP)
