"""Backends of the journal: memory, a SQLite file or a PostgreSQL database; start with `sqlite.py`."""
