"""Integrations with other agent frameworks, in both directions: Spindle tools in a framework, and its tools in Spindle.

Start at `session.py` (how a framework's calls reach an `Executor`), then `pydantic_ai.py`, `langchain.py` and
`langgraph.py`, or `openai_agents.py`. Each of these requires its framework, and raises if it is not installed.
"""
