"""Other agent frameworks, both ways: our tools in theirs with every promise kept, and their tools as ours.

Start at `running.py` (how their calls reach an `Executor`), then `pydantic_ai.py`, `langchain.py` and `langgraph.py`,
or `openai_agents.py`. Each of these needs its framework, and says so where it is missing.
"""
