"""AgentDojo's tasks and attacks replayed under three policies; `__main__.py` prints the table."""
